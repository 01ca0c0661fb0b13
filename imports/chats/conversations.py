"""Conversations of another system, stored as threads of users."""

from argparse import ArgumentParser
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from agents.config import AGENTS
from config import live
from config.validation.suggestions import did_you_mean
from core.errors import Invalid
from core.ids import UserId
from core.messages import Message, Role
from imports.report import Report, batch
from memory import memory_settings
from memory.extraction.extraction_tasks import ExtractionRequest
from memory.transcript import imported_turns
from memory.transcript.conversations import MAX_TITLE_LENGTH
from memory.transcript.imported_turns import ImportedConversation, ImportedMessage
from telemetry.storage.stored_text import make_storable
from turns.preparation import options as turn_options
from turns.preparation.options import MAX_THREAD_LENGTH, TurnOptions

MAX_ID_LENGTH = 200
MILLISECONDS_FROM = 10**11
"""Larger times are in milliseconds: in seconds they would be after the year 5000."""
ACCOUNT = "{user_id}"
"""Stands for the id of an account, in names of users."""
ATTACHMENT = "(attachment)"
"""The text of a message that has nothing else."""


@dataclass(frozen=True, slots=True)
class SourceMessage:
    id: str
    role: Role
    text: str
    created_at: datetime | None


@dataclass(slots=True)
class SourceConversation:
    id: str
    title: str
    messages: list[SourceMessage] = field(default_factory=list)
    """Those of the current branch, in their order, of the user and the assistant."""
    attachments: int = 0


def add_arguments(parser: ArgumentParser) -> None:
    """Add the options that all sources of conversations have."""
    parser.add_argument(
        "--agent",
        metavar="NAME",
        help="The agent that the replies count as (default: the first of the file).",
    )
    parser.add_argument(
        "--learn",
        action="store_true",
        help="Extract facts, too: a model reads each turn in the background.",
    )


class ConversationStore:
    """Stores conversations, as those of an agent, and reports each."""

    def __init__(self, options: dict[str, Any], report: Report) -> None:
        self.config = live.read_effective(options["config"])
        self._report = report
        self._unreadable = 0
        self._agent = self._choose_agent(options["agent"])
        memory = memory_settings.resolve_for_agent(self.config, self._agent)
        self._settings = memory.settings
        if options["learn"] and memory.user_memory is None:
            raise Invalid(
                f"agent '{self._agent}' does not remember users: set "
                "memory.user_state, or leave out --learn"
            )
        self._extraction = ExtractionRequest(
            self._agent, is_search_only=not options["learn"]
        )

    def _choose_agent(self, name: str | None) -> str:
        agents = self.config.get(AGENTS)
        if name is None:
            return next(iter(agents))
        if name not in agents:
            raise Invalid(f"there is no agent '{name}'{did_you_mean(name, agents)}")
        return name

    def store(self, user_id: UserId, source: SourceConversation) -> None:
        """Store the turns of a conversation that are new, in one transaction."""
        turns = self._split_turns(source)
        if not turns:
            self._report.skip("conversations", source.id, "it has no reply")
            return
        named = TurnOptions(thread=source.id)
        conversation = ImportedConversation(
            turn_options.for_agent(self.config, self._agent, named).thread,
            make_storable(source.title)[:MAX_TITLE_LENGTH],
            self._agent,
            {
                turn[-1].id: [
                    ImportedMessage(Message(each.role, each.text), each.created_at)
                    for each in turn
                ]
                for turn in turns
            },
            turns[-1][-1].created_at or datetime.now(UTC),
        )
        with batch(self._report):
            added = imported_turns.store_conversation(
                user_id, conversation, self._settings, self._extraction
            )
        self._count(source, turns, added)

    def skip(self, row: str, reason: str) -> None:
        """Report a conversation that cannot be read."""
        self._report.count("conversations", read=1)
        self._report.skip("conversations", row, reason)
        self._unreadable += 1

    def check_any(self, other: str) -> None:
        """Raise `Invalid` if no conversation could be read; `other` is a command."""
        if self._unreadable and self._unreadable == self._report.read:
            reasons = "; ".join(each.reason for each in self._report.skipped)
            raise Invalid(
                f"no conversation of the export can be read: {reasons}. Is it of "
                f"another system? See `coulisse {other}`"
            )

    def _split_turns(self, source: SourceConversation) -> list[list[SourceMessage]]:
        """Return the turns, each with its reply; the report has what is left out."""
        self._report.count("conversations", read=1)
        turns: list[list[SourceMessage]] = [[]]
        for message in _with_times(source.messages):
            if message.role == "user" and turns[-1] and _is_answered(turns[-1]):
                turns.append([])
            turns[-1].append(message)
        self._report.count("messages", read=len(source.messages))
        if not _is_answered(turns[-1]) and (questions := turns.pop()):
            reason = "the last question has no reply"
            self._report.skip("messages", source.id, reason, count=len(questions))
        if source.attachments:
            self._report.count("attachments", read=source.attachments)
            reason = "files and images are not moved"
            self._report.skip(
                "attachments", source.id, reason, count=source.attachments
            )
        return turns

    def _count(
        self,
        source: SourceConversation,
        turns: Sequence[Sequence[SourceMessage]],
        added: int | None,
    ) -> None:
        if added is None:
            reason = "it went on differently here, or has changed there, since"
            self._report.skip("conversations", source.id, reason)
            return
        known = len(turns) - added
        self._report.count(
            "conversations", written=int(added > 0), existing=int(not added)
        )
        self._report.count(
            "messages",
            written=sum(map(len, turns[known:])),
            existing=sum(map(len, turns[:known])),
        )

    def note_next_steps(self) -> None:
        """Tell when the conversations can be searched."""
        if self._report.counts["conversations"].written:
            self._report.note(
                "a worker makes the conversations searchable in the background"
            )


def _is_answered(turn: Sequence[SourceMessage]) -> bool:
    return bool(turn) and turn[-1].role == "assistant"


def _with_times(messages: Sequence[SourceMessage]) -> Iterator[SourceMessage]:
    """Give each message without a time that of the one before, or of the next."""
    known = (each.created_at for each in messages if each.created_at is not None)
    last = next(known, datetime.now(UTC))
    for each in messages:
        last = each.created_at or last
        yield SourceMessage(each.id, each.role, make_storable(each.text), last)


def read_time(value: object) -> datetime | None:
    """Return a time in seconds or milliseconds; None for none, or one to come."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        seconds = value / 1000 if value > MILLISECONDS_FROM else value
        at = datetime.fromtimestamp(seconds, UTC)
    except (ValueError, OverflowError, OSError):
        return None
    return at if seconds > 0 and at <= datetime.now(UTC) else None


def read_id(value: object, kind: str) -> str:
    """Return an id that may name a thread; raises `Invalid` for any other value."""
    if (
        isinstance(value, str)
        and 0 < len(value) <= min(MAX_ID_LENGTH, MAX_THREAD_LENGTH)
        and value.isprintable()
    ):
        return value
    raise Invalid(f"its {kind} is missing, or not a short text")
