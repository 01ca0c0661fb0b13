"""What was spent, for the terminal and as JSON."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from datetime import datetime, timedelta
from typing import Any

from core import money
from telemetry import telling
from telemetry.config import TelemetryConfig
from telemetry.spending import Of, Spent
from turns import columns

JUDGES = "(judges)"
NONE = "-"
HEAD = ("turns", "input", "output", "cost", "")


def table(
    what: Of, spent: Sequence[Spent], total: Spent, names: Mapping[str, str]
) -> Iterator[str]:
    """Yield the lines of a table, all together last; `names` go beside the keys."""
    rows = [[_label(each, names), *_cells(each)] for each in spent]
    rows.append(["all", *_cells(total)])
    yield from columns.lines([what, *HEAD], rows, right=range(1, len(HEAD)))


def _label(spent: Spent, names: Mapping[str, str]) -> str:
    parts = (spent.key or NONE, names.get(spent.key or ""))
    return " ".join(filter(None, (*parts, JUDGES if spent.judgements else None)))


def _cells(spent: Spent) -> list[str]:
    turns = f"{spent.turns:,}" if spent.turns or not spent.judgements else NONE
    doubts = _doubts(spent)
    is_known = not doubts or spent.micro_usd
    cost = f"${money.usd(spent.micro_usd)}" if is_known else "unknown"
    doubt = f"more is unknown, for {doubts}" if doubts else ""
    return [
        *(turns, f"{spent.input_tokens:,}", f"{spent.output_tokens:,}"),
        *(cost, doubt),
    ]


def _doubts(spent: Spent) -> str:
    counts = {"turn": spent.unknown, "judgement": spent.unknown_judgements}
    return " and ".join(
        f"{count} {noun}{'' if count == 1 else 's'}"
        for noun, count in counts.items()
        if count
    )


def document(
    what: Of, since: datetime, spent: Sequence[Spent], total: Spent, notes: list[str]
) -> dict[str, Any]:
    """Return the same as JSON."""
    return {
        "object": "spending",
        "by": what,
        "since": telling.instant(since),
        "data": [
            {what: each.key, "kind": _kind(each), **_told(each)} for each in spent
        ],
        "total": _told(total),
        "notes": notes,
    }


def _kind(spent: Spent) -> str:
    return "judges" if spent.judgements else "turns"


def _told(spent: Spent) -> dict[str, Any]:
    told = asdict(spent)
    del told["key"]
    told["unknown_turns"] = told.pop("unknown")
    told["cost_usd"] = telling.usd(told.pop("micro_usd"))
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
