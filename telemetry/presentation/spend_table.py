"""Costs for the terminal."""

import uuid
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta

from access.models import ApiToken
from core import money
from core.text import text_table
from telemetry.config import TelemetryConfig
from telemetry.statistics import cost_totals
from telemetry.statistics.cost_totals import CostTotal, Dimension

NO_VALUE = "-"
HEADER = ("input", "output", "cost", "")


def table_lines(
    dimension: Dimension, totals: Sequence[CostTotal], names: Mapping[str, str]
) -> Iterator[str]:
    """Yield the lines of a table, the total last; `names` appear beside the keys."""
    unit = cost_totals.counted_unit(dimension)
    rows = [[_label(each, names), *_cells(each, unit)] for each in totals]
    rows.append(["all", *_cells(cost_totals.sum_totals(totals), unit)])
    header = [dimension, unit, *HEADER]
    yield from text_table.table_lines(header, rows, right=range(1, len(header) - 1))


def token_names(dimension: Dimension, totals: Sequence[CostTotal]) -> dict[str, str]:
    """Return the names of tokens by key; empty for other dimensions."""
    if dimension != "token":
        return {}
    return ApiToken.objects.labels([uuid.UUID(each.key) for each in totals if each.key])


def _label(total: CostTotal, names: Mapping[str, str]) -> str:
    parts = [
        total.key or NO_VALUE,
        names.get(total.key or ""),
        None if total.kind == "turns" else f"({total.kind})",
    ]
    return " ".join(filter(None, parts))


def _cells(total: CostTotal, unit: str) -> list[str]:
    unpriced = unpriced_counts(total, unit)
    is_known = not unpriced or total.micro_usd
    return [
        f"{total.turns:,}" if total.turns or total.kind == "turns" else NO_VALUE,
        f"{total.input_tokens:,}",
        f"{total.output_tokens:,}",
        f"${money.decimal_usd(total.micro_usd)}" if is_known else "unknown",
        ", ".join(
            filter(None, [unpriced and f"cost unknown for {unpriced}", _saving(total)])
        ),
    ]


def _saving(total: CostTotal) -> str:
    """Return what prompt caching saved; "" without caching or a known price.

    The amount is negative if writing cost more than reading saved.
    """
    saved = total.saved_micro_usd
    return f"caching saved ${money.decimal_usd(saved)}" if saved else ""


def unpriced_counts(total: CostTotal, unit: str) -> str:
    """Return what has no known price, such as `2 turns and 1 embedding`."""
    counts = {
        unit: total.unpriced,
        "judgements": total.unpriced_judgements,
        "embeddings": total.unpriced_embeddings,
    }
    return " and ".join(
        f"{count} {noun.removesuffix('s') if count == 1 else noun}"
        for noun, count in counts.items()
        if count
    )


def notes(
    since: datetime,
    oldest: datetime | None,
    settings: TelemetryConfig,
    now: datetime,
) -> Iterator[str]:
    """Yield notes about data that is missing in the record."""
    recording = settings.sqlite
    if not recording.enabled:
        yield "turns are not recorded: telemetry.sqlite.enabled is false"
    days = recording.keep_days
    if days is None or since >= now - timedelta(days=days):
        return
    begin = "no turn is recorded"
    if oldest is not None:
        begin = f"the oldest one began {oldest:%Y-%m-%d %H:%M} UTC"
    yield f"turns are stored for {days} days (telemetry.sqlite.keep_days): {begin}"
