"""What was spent, for the terminal and as JSON."""

import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from datetime import datetime, timedelta
from typing import Any

from access.tokens import api_tokens
from core import money
from core.text import text_table
from telemetry.config import TelemetryConfig
from telemetry.presentation import turn_serializers
from telemetry.statistics import cost_totals
from telemetry.statistics.cost_totals import Of, Spent

JUDGES = "(judges)"
NONE = "-"
HEAD = ("input", "output", "cost", "")


def table(
    what: Of, spent: Sequence[Spent], total: Spent, names: Mapping[str, str]
) -> Iterator[str]:
    """Yield the lines of a table, all together last; `names` go beside the keys."""
    counts = counted(what)
    rows = [[_label(each, names), *_cells(each, counts)] for each in spent]
    rows.append(["all", *_cells(total, counts)])
    head = [what, counts, *HEAD]
    yield from text_table.lines(head, rows, right=range(1, len(head) - 1))


def counted(what: Of) -> str:
    """Return what is counted of each: of a model the calls, of all else the turns."""
    return "calls" if what in cost_totals.CALLS_KEYS else "turns"


def names(what: Of, spent: Sequence[Spent]) -> dict[str, str]:
    """Return what tokens are called, by their keys; of all else there are no names."""
    if what != "token":
        return {}
    return api_tokens.labels([uuid.UUID(each.key) for each in spent if each.key])


def _label(spent: Spent, names: Mapping[str, str]) -> str:
    parts = (spent.key or NONE, names.get(spent.key or ""))
    return " ".join(filter(None, (*parts, JUDGES if spent.judgements else None)))


def _cells(spent: Spent, counts: str) -> list[str]:
    turns = f"{spent.turns:,}" if spent.turns or not spent.judgements else NONE
    doubts = _doubts(spent, counts)
    is_known = not doubts or spent.micro_usd
    cost = f"${money.usd(spent.micro_usd)}" if is_known else "unknown"
    doubt = f"more is unknown, for {doubts}" if doubts else ""
    return [
        *(turns, f"{spent.input_tokens:,}", f"{spent.output_tokens:,}"),
        *(cost, doubt),
    ]


def _doubts(spent: Spent, counts: str) -> str:
    doubts = {counts: spent.unpriced_turns, "judgements": spent.unpriced_judgements}
    return " and ".join(
        f"{count} {nouns.removesuffix('s') if count == 1 else nouns}"
        for nouns, count in doubts.items()
        if count
    )


def document(
    what: Of, since: datetime, spent: Sequence[Spent], total: Spent, notes: list[str]
) -> dict[str, Any]:
    """Return the same as JSON."""
    counts = counted(what)
    return {
        "object": "spending",
        "by": what,
        "since": turn_serializers.instant(since),
        "data": [
            {what: each.key, "kind": _kind(each), **_told(each, counts)}
            for each in spent
        ],
        "total": _told(total, counts),
        "notes": notes,
    }


def _kind(spent: Spent) -> str:
    return "judges" if spent.judgements else "turns"


def _told(spent: Spent, counts: str) -> dict[str, Any]:
    told = asdict(spent)
    del told["key"]
    told[counts] = told.pop("turns")
    told[f"unknown_{counts}"] = told.pop("unknown")
    told["cost_usd"] = turn_serializers.usd(told.pop("micro_usd"))
    return told


def notes(
    since: datetime,
    oldest: datetime | None,
    settings: TelemetryConfig,
    now: datetime,
) -> Iterator[str]:
    """Yield what the record does not have."""
    record = settings.sqlite
    if not record.enabled:
        yield "turns are not recorded at present: telemetry.sqlite.enabled is false"
    if record.keep_days is None or since >= now - timedelta(days=record.keep_days):
        return
    kept = f"turns are kept for {record.keep_days} days (telemetry.sqlite.keep_days)"
    begins = "nothing is recorded"
    if oldest is not None:
        begins = f"the oldest one began {oldest:%Y-%m-%d %H:%M} UTC"
    yield f"{kept}: {begins}"
