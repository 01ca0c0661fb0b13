"""Costs for the terminal and as JSON."""

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
from telemetry.statistics.cost_totals import CostTotal, Dimension

JUDGES = "(judges)"
NO_VALUE = "-"
HEADER = ("input", "output", "cost", "")


def table_lines(
    what: Dimension,
    spent: Sequence[CostTotal],
    total: CostTotal,
    names: Mapping[str, str],
) -> Iterator[str]:
    """Yield the lines of a table, the total last; `names` appear beside the keys."""
    counts = counted_unit(what)
    rows = [[_label(each, names), *_cells(each, counts)] for each in spent]
    rows.append(["all", *_cells(total, counts)])
    head = [what, counts, *HEADER]
    yield from text_table.table_lines(head, rows, right=range(1, len(head) - 1))


def counted_unit(what: Dimension) -> str:
    """Return the counted unit: calls for models and providers, otherwise turns."""
    return "calls" if what in cost_totals.CALLS_KEYS else "turns"


def token_names(what: Dimension, spent: Sequence[CostTotal]) -> dict[str, str]:
    """Return the names of tokens by key; empty for other dimensions."""
    if what != "token":
        return {}
    return api_tokens.labels_by_id([uuid.UUID(each.key) for each in spent if each.key])


def _label(spent: CostTotal, names: Mapping[str, str]) -> str:
    parts = (spent.key or NO_VALUE, names.get(spent.key or ""))
    return " ".join(filter(None, (*parts, JUDGES if spent.judgements else None)))


def _cells(spent: CostTotal, counts: str) -> list[str]:
    turns = f"{spent.turns:,}" if spent.turns or not spent.judgements else NO_VALUE
    doubts = _cost_notes(spent, counts)
    is_known = not doubts or spent.micro_usd
    cost = f"${money.format_usd(spent.micro_usd)}" if is_known else "unknown"
    doubt = f"cost unknown for {doubts}" if doubts else ""
    return [
        *(turns, f"{spent.input_tokens:,}", f"{spent.output_tokens:,}"),
        *(cost, doubt),
    ]


def _cost_notes(spent: CostTotal, counts: str) -> str:
    doubts = {counts: spent.unknown, "judgements": spent.unknown_judgements}
    return " and ".join(
        f"{count} {nouns.removesuffix('s') if count == 1 else nouns}"
        for nouns, count in doubts.items()
        if count
    )


def as_json(
    what: Dimension,
    since: datetime,
    spent: Sequence[CostTotal],
    total: CostTotal,
    notes: list[str],
) -> dict[str, Any]:
    """Return the same as JSON."""
    counts = counted_unit(what)
    return {
        "object": "spending",
        "by": what,
        "since": turn_serializers.format_time(since),
        "data": [
            {what: each.key, "kind": _object_kind(each), **_spend_as_json(each, counts)}
            for each in spent
        ],
        "total": _spend_as_json(total, counts),
        "notes": notes,
    }


def _object_kind(spent: CostTotal) -> str:
    return "judges" if spent.judgements else "turns"


def _spend_as_json(spent: CostTotal, counts: str) -> dict[str, Any]:
    told = asdict(spent)
    del told["key"]
    told[counts] = told.pop("turns")
    told[f"unknown_{counts}"] = told.pop("unknown")
    told["cost_usd"] = turn_serializers.to_usd(told.pop("micro_usd"))
    return told


def notes(
    since: datetime,
    oldest: datetime | None,
    settings: TelemetryConfig,
    now: datetime,
) -> Iterator[str]:
    """Yield notes about data that is missing in the record."""
    record = settings.sqlite
    if not record.enabled:
        yield "turns are not recorded: telemetry.sqlite.enabled is false"
    if record.keep_days is None or since >= now - timedelta(days=record.keep_days):
        return
    kept = f"turns are kept for {record.keep_days} days (telemetry.sqlite.keep_days)"
    begin = "no turn is recorded"
    if oldest is not None:
        begin = f"the oldest one began {oldest:%Y-%m-%d %H:%M} UTC"
    yield f"{kept}: {begin}"
