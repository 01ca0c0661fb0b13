"""What an import read, wrote and skipped."""

import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from typing import Any

from django.db import transaction

from core.text import sanitization, text_table

MAX_EXAMPLES = 3
"""Skipped rows that the report names for each reason."""
MAX_REASONS = 200
"""Distinct reasons of a report; further ones are counted together."""
MAX_NOTE_LENGTH = 2_000
MAX_LENGTH = 300
"""Characters of a name or a reason, which may quote the other system."""
OTHER_REASONS = "other reasons"
HEADER = ("", "read", "written", "already there", "skipped")
NAMESPACE = uuid.UUID("3d0c7b0e-6e0b-5e0f-9a55-4b1f2f5d9a10")


def deterministic_id(*source_ids: str) -> uuid.UUID:
    """Return the same id for the same ids of another system: `("chatgpt", "abc")`."""
    return uuid.uuid5(NAMESPACE, "\x1f".join(source_ids))


@dataclass
class Counts:
    """The rows of one kind."""

    read: int = 0
    written: int = 0
    existing: int = 0
    skipped: int = 0


@dataclass
class Skipped:
    """The rows of one kind that were skipped for the same reason."""

    kind: str
    reason: str
    count: int = 0
    examples: list[str] = field(default_factory=list)


@dataclass
class Report:
    """Its source adds to it; a kind of rows is a plural noun: `messages`."""

    source: str
    is_dry_run: bool = False
    counts: dict[str, Counts] = field(default_factory=dict)
    unsupported: dict[str, str] = field(default_factory=dict)
    """Names of things without a counterpart here, and what to do about them."""
    notes: list[str] = field(default_factory=list)
    """Remarks, and the next steps of the user."""
    total: int = 0
    """The rows to read, for the display of progress; 0 if the source does not know."""
    on_read: Callable[["Report"], None] = lambda report: None
    _skipped: dict[tuple[str, str], Skipped] = field(default_factory=dict)

    @property
    def read(self) -> int:
        """The rows read so far."""
        return sum(each.read for each in self.counts.values())

    def count(
        self, kind: str, *, read: int = 0, written: int = 0, existing: int = 0
    ) -> None:
        """Add to the counts of a kind; kinds are listed in the order of first use."""
        counts = self.counts.setdefault(kind, Counts())
        counts.read += read
        counts.written += written
        counts.existing += existing
        if read:
            self.on_read(self)

    def skip(self, kind: str, row: str, reason: str, *, count: int = 1) -> None:
        """Count rows that cannot be imported; `row` names one: `message 17`."""
        self.counts.setdefault(kind, Counts()).skipped += count
        key = (kind, _quotable(reason))
        if key not in self._skipped and len(self._skipped) >= MAX_REASONS:
            key = (kind, OTHER_REASONS)
        skipped = self._skipped.setdefault(key, Skipped(*key))
        skipped.count += count
        if len(skipped.examples) < MAX_EXAMPLES:
            skipped.examples.append(_quotable(row))

    def no_counterpart(self, name: str, remedy: str) -> None:
        """Report something of the other system that does not exist here."""
        self.unsupported[_quotable(name)] = _quotable(remedy)

    def note(self, text: str) -> None:
        self.notes.append(sanitization.escape_and_truncate_line(text, MAX_NOTE_LENGTH))

    @property
    def skipped(self) -> list[Skipped]:
        return list(self._skipped.values())

    def as_json(self) -> dict[str, Any]:
        return {
            "source": self.source,
            "dry_run": self.is_dry_run,
            "counts": {kind: asdict(each) for kind, each in self.counts.items()},
            "skipped": [asdict(each) for each in self.skipped],
            "no_counterpart": self.unsupported,
            "notes": self.notes,
        }

    def lines(self) -> Iterator[str]:
        """Yield the report as text."""
        rows = [
            (kind, *(f"{number:,}" for number in asdict(counts).values()))
            for kind, counts in self.counts.items()
        ]
        yield from text_table.table_lines(HEADER, rows, right=range(1, len(HEADER)))
        for each in self.skipped:
            examples = ", ".join(each.examples)
            yield f"skipped {each.count:,} {each.kind}: {each.reason} ({examples})"
        for name, remedy in self.unsupported.items():
            yield f"no counterpart: {name}: {remedy}"
        yield from self.notes
        if self.is_dry_run:
            yield "dry run: nothing was written"


@contextmanager
def batch(report: Report) -> Iterator[None]:
    """Write in one transaction, which a dry run rolls back."""
    with transaction.atomic():
        yield
        if report.is_dry_run:
            transaction.set_rollback(True)


def _quotable(text: str) -> str:
    return sanitization.escape_and_truncate_line(text, MAX_LENGTH)
