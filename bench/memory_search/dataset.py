"""The data set of the recall measurement; bench/data/README.md has its formats."""

import json
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, TypeVar

DATA = Path(__file__).resolve().parents[1] / "data"

T = TypeVar("T")

Label = Literal["paraphrase", "contradiction", "different"]


@dataclass(frozen=True)
class DatasetFact:
    """A fact about a fictional user."""

    id: str
    user: str
    language: str
    category: str
    content: str
    supersedes: str = ""
    """The earlier fact that it replaces."""


@dataclass(frozen=True)
class DatasetQuestion:
    """A question and its answers."""

    user: str
    """The user or the conversation that the question is about."""
    text: str
    answers: tuple[str, ...]
    kind: str
    language: str

    @property
    def half(self) -> Literal["tuning", "report"]:
        """The half of the data set: one for tuning constants, one for reports."""
        return "tuning" if zlib.crc32(self.text.encode()) % 2 else "report"


@dataclass(frozen=True)
class FactPair:
    """A known fact and a later statement."""

    id: str
    language: str
    label: Label
    old: str
    new: str


@dataclass(frozen=True)
class DatasetMessage:
    """One message of a conversation."""

    id: str
    speaker: str
    text: str


@dataclass(frozen=True)
class DatasetConversation:
    """A conversation of two speakers, and questions about it."""

    name: str
    lines: tuple[DatasetMessage, ...]
    questions: tuple[DatasetQuestion, ...]

    @property
    def speakers(self) -> list[str]:
        """The speakers, in order of appearance."""
        return list(dict.fromkeys(line.speaker for line in self.lines))


@dataclass(frozen=True)
class Dataset:
    """The data of one measurement."""

    facts: tuple[DatasetFact, ...] = ()
    queries: tuple[DatasetQuestion, ...] = ()
    pairs: tuple[FactPair, ...] = ()
    conversations: tuple[DatasetConversation, ...] = field(default=())

    def sample(self, count: int) -> "Dataset":
        """Return an evenly spread sample of the queries, pairs and questions."""
        return replace(
            self,
            queries=_spread(self.queries, count),
            pairs=_spread(self.pairs, count),
            conversations=tuple(
                replace(conversation, questions=_spread(conversation.questions, count))
                for conversation in self.conversations[:1]
            ),
        )


def choose(files: Sequence[Path], sample: int | None) -> Dataset:
    """Return the conversations of these files, or the repository's data set.

    `sample` limits the number of questions of each kind. Raises ValueError for an
    invalid file, and OSError for an unreadable one.
    """
    if not files:
        data = load()
    else:
        conversations = [
            conversation for file in files for conversation in transcripts(file)
        ]
        data = Dataset(conversations=tuple(conversations))
    return data if sample is None else data.sample(sample)


def load() -> Dataset:
    """Return the repository's data set."""
    facts = tuple(DatasetFact(**row) for row in _rows(DATA / "facts.jsonl"))
    return Dataset(
        facts,
        tuple(_query(row) for row in _rows(DATA / "queries.jsonl")),
        tuple(FactPair(**row) for row in _rows(DATA / "pairs.jsonl")),
        tuple(
            conversation
            for path in sorted((DATA / "transcripts").glob("*.jsonl"))
            for conversation in transcripts(path)
        ),
    )


def transcripts(path: Path) -> list[DatasetConversation]:
    """Return the conversations of a file, in our format or the common public one.

    Raises ValueError for other formats.
    """
    text = path.read_text(encoding="utf-8")
    try:
        if text.lstrip().startswith("["):
            return [
                _public_sample(sample, number)
                for number, sample in enumerate(json.loads(text), start=1)
            ]
        return list(_conversations(_rows(path)))
    except (AttributeError, KeyError, TypeError, json.JSONDecodeError) as exc:
        raise ValueError(f"{path} is in neither format: {exc!r}") from exc


def _rows(path: Path) -> list[dict[str, Any]]:
    # Not splitlines(), which also splits at other characters than the newline.
    lines = path.read_text(encoding="utf-8").split("\n")
    return [json.loads(line) for line in lines if line.strip()]


def _query(row: dict[str, Any]) -> DatasetQuestion:
    answers = tuple(row["answers"])
    return DatasetQuestion(
        row["user"], row["text"], answers, row["kind"], row["language"]
    )


def _conversations(rows: Sequence[dict[str, Any]]) -> Iterator[DatasetConversation]:
    starts = [number for number, row in enumerate(rows) if "conversation" in row]
    if not starts or starts[0] != 0:
        raise KeyError("conversation")
    for start, end in zip(starts, [*starts[1:], len(rows)], strict=True):
        head, body = rows[start], rows[start + 1 : end]
        name = head["conversation"]
        yield DatasetConversation(
            name,
            tuple(
                DatasetMessage(row["id"], row["speaker"], row["text"])
                for row in body
                if "question" not in row
            ),
            tuple(
                DatasetQuestion(
                    name,
                    row["question"],
                    tuple(row["evidence"]),
                    row.get("kind", "direct"),
                    row.get("language", head.get("language", "")),
                )
                for row in body
                if "question" in row
            ),
        )


def _public_sample(sample: dict[str, Any], number: int) -> DatasetConversation:
    """Read `session_1`, `session_2` … in order, and the questions with evidence."""
    name = str(sample.get("sample_id", number))
    sessions = sample["conversation"]
    lines = tuple(
        DatasetMessage(turn["dia_id"], turn["speaker"], turn.get("text", ""))
        for session in _session_names(sessions)
        for turn in sessions[session]
    )
    line_ids = {line.id for line in lines}
    questions = tuple(
        DatasetQuestion(
            name, item["question"], evidence, str(item.get("category", "")), ""
        )
        for item in sample["qa"]
        if (evidence := tuple(_evidence(item, line_ids)))
    )
    return DatasetConversation(name, lines, questions)


def _session_names(sessions: dict[str, Any]) -> list[str]:
    numbers = [
        int(key.removeprefix("session_"))
        for key, value in sessions.items()
        if key.removeprefix("session_").isdigit() and isinstance(value, list)
    ]
    return [f"session_{number}" for number in sorted(numbers)]


def _evidence(item: dict[str, Any], line_ids: set[str]) -> list[str]:
    """Return the existing ids: public files combine several in one text, with typos."""
    if item.get("answer") is None:
        return []  # The conversation does not contain the answer.
    text = " ".join(item.get("evidence") or ()).replace(";", " ").replace(",", " ")
    return [word for word in dict.fromkeys(text.split()) if word in line_ids]


def _spread(items: Sequence[T], count: int) -> tuple[T, ...]:
    step = max(1, len(items) // count)
    return tuple(items[::step][:count])
