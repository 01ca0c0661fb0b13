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

NONE = "-"
HEAD = ("turns", "input", "output", "cost", "")


def table(
    what: Of, spent: Sequence[Spent], total: Spent, names: Mapping[str, str]
) -> Iterator[str]:
    """Yield the lines of a table, all together last; `names` go beside the keys."""
    rows = [
        [" ".join(filter(None, (s.key or NONE, names.get(s.key or "")))), *_cells(s)]
        for s in spent
    ]
    rows.append(["all", *_cells(total)])
    yield from columns.lines([what, *HEAD], rows, right=range(1, len(HEAD)))


def _cells(spent: Spent) -> list[str]:
    counts = (spent.turns, spent.input_tokens, spent.output_tokens)
    is_known = not spent.unknown or spent.micro_usd
    cost = f"${money.usd(spent.micro_usd)}" if is_known else "unknown"
    turns = "turn" if spent.unknown == 1 else "turns"
    doubt = f"more is unknown, for {spent.unknown} {turns}" if spent.unknown else ""
    return [*(f"{count:,}" for count in counts), cost, doubt]


def document(
    what: Of, since: datetime, spent: Sequence[Spent], total: Spent, notes: list[str]
) -> dict[str, Any]:
    """Return the same as JSON."""
    return {
        "object": "spending",
        "by": what,
        "since": telling.instant(since),
        "data": [{what: each.key, **_told(each)} for each in spent],
        "total": _told(total),
        "notes": notes,
    }


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
