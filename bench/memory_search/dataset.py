"""What the quality of recall is measured on; bench/data/README.md tells the formats."""

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
    """A fact of an invented person."""

    id: str
    user: str
    language: str
    category: str
    content: str
    supersedes: str = ""
    """The fact that was true before it."""


@dataclass(frozen=True)
class DatasetQuestion:
    """Something asked, and what answers it."""

    user: str
    """Whose facts, or which conversation, it is asked of."""
    text: str
    answers: tuple[str, ...]
    kind: str
    language: str

    @property
    def half(self) -> Literal["tuning", "report"]:
        """Which half it is in: constants are tuned on one and judged on the other."""
        return "tuning" if zlib.crc32(self.text.encode()) % 2 else "report"


@dataclass(frozen=True)
class FactPair:
    """Something known and something said later."""

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
    """A conversation of two, and what is asked about it."""

    name: str
    lines: tuple[DatasetMessage, ...]
    questions: tuple[DatasetQuestion, ...]

    @property
    def speakers(self) -> list[str]:
        """Return who speaks, in order of appearance."""
        return list(dict.fromkeys(line.speaker for line in self.lines))


@dataclass(frozen=True)
class Dataset:
    """Everything one run measures."""

    facts: tuple[DatasetFact, ...] = ()
    queries: tuple[DatasetQuestion, ...] = ()
    pairs: tuple[FactPair, ...] = ()
    conversations: tuple[DatasetConversation, ...] = field(default=())

    def sample(self, count: int) -> "Dataset":
        """Return so many queries, pairs and questions, spread, of everything known."""
        return replace(
            self,
            queries=_spread(self.queries, count),
            pairs=_spread(self.pairs, count),
            conversations=tuple(
                replace(one, questions=_spread(one.questions, count))
                for one in self.conversations[:1]
            ),
        )


def choose(files: Sequence[Path], sample: int | None) -> Dataset:
    """Return the conversations of these files, or else the set of the repository.

    `sample` takes only so many questions of each sort. Raises ValueError, or OSError
    where a file cannot be read.
    """
    if not files:
        chosen = load()
    else:
        found = [one for file in files for one in transcripts(file)]
        chosen = Dataset(conversations=tuple(found))
    return chosen if sample is None else chosen.sample(sample)


def load() -> Dataset:
    """Return the set of the repository."""
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

    Raises ValueError when it is neither.
    """
    text = path.read_text(encoding="utf-8")
    try:
        if text.lstrip().startswith("["):
            return [_sample(one, n) for n, one in enumerate(json.loads(text), start=1)]
        return list(_conversations(_rows(path)))
    except (AttributeError, KeyError, TypeError, json.JSONDecodeError) as exc:
        raise ValueError(f"{path} is in neither format: {exc!r}") from exc


def _rows(path: Path) -> list[dict[str, Any]]:
    # Not splitlines(), to which other characters than the newline end a line.
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


def _sample(one: dict[str, Any], number: int) -> DatasetConversation:
    """Read `session_1`, `session_2` … in order, and the questions with evidence."""
    name = str(one.get("sample_id", number))
    spoken = one["conversation"]
    lines = tuple(
        DatasetMessage(turn["dia_id"], turn["speaker"], turn.get("text", ""))
        for session in _sessions(spoken)
        for turn in spoken[session]
    )
    known = {line.id for line in lines}
    questions = tuple(
        DatasetQuestion(
            name, asked["question"], evidence, str(asked.get("category", "")), ""
        )
        for asked in one["qa"]
        if (evidence := tuple(_evidence(asked, known)))
    )
    return DatasetConversation(name, lines, questions)


def _sessions(spoken: dict[str, Any]) -> list[str]:
    numbers = [
        int(key.removeprefix("session_"))
        for key, value in spoken.items()
        if key.removeprefix("session_").isdigit() and isinstance(value, list)
    ]
    return [f"session_{number}" for number in sorted(numbers)]


def _evidence(asked: dict[str, Any], known: set[str]) -> list[str]:
    """Return the ids that exist: public files put several into one text, and typos."""
    if asked.get("answer") is None:
        return []  # It asks for what was never said.
    given = " ".join(asked.get("evidence") or ()).replace(";", " ").replace(",", " ")
    return [one for one in dict.fromkeys(given.split()) if one in known]


def _spread(items: Sequence[T], count: int) -> tuple[T, ...]:
    step = max(1, len(items) // count)
    return tuple(items[::step][:count])
