"""Costs of turns, of their judges and of embeddings, summed by the database."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace
from datetime import datetime
from typing import Literal, get_args
from uuid import UUID

from django.db.models import Min

from config.sections import Config
from database.repeated_queries import LATEST
from providers.pricing import call_costs
from telemetry.models import Turn
from telemetry.statistics import period_sums, spend_sources
from telemetry.statistics.period_sums import Cursor, Row, Source
from telemetry.statistics.spend_sources import (
    ALL,
    DIMENSIONS,
    MODEL_KEYS,
    Dimension,
    SpendFilter,
)

__all__ = ["ALL", "DIMENSIONS", "CostTotal", "Dimension", "SpendFilter"]

Kind = Literal["turns", "judges", "embeddings"]
KINDS = get_args(Kind)


@dataclass(frozen=True, slots=True)
class CostTotal:
    """The cost of one key of a dimension: of turns, judges or embeddings; or of all."""

    key: str | None
    """None for turns without a token, for expenses by user or token, and for the
    total."""
    turns: int = 0
    """Turns with model calls; for a model or a provider, its calls."""
    unpriced: int = 0
    """Those whose cost is not fully known."""
    input_tokens: int = 0
    output_tokens: int = 0
    micro_usd: int = 0
    """The known part."""
    judgements: int = 0
    """Number of judged replies, for judges and for the total."""
    unpriced_judgements: int = 0
    """Those whose cost is unknown."""
    embeddings: int = 0
    """Number of requests that embedded texts with an API, and for the total."""
    unpriced_embeddings: int = 0
    cache_read_tokens: int = 0
    """The part of the input that was read from providers' caches; only by model."""
    cache_write_tokens: int = 0
    saved_micro_usd: int = 0
    """What the cache saved; negative if it cost more to write than reads saved."""

    @property
    def unpriced_expenses(self) -> int:
        return self.unpriced_judgements + self.unpriced_embeddings

    @property
    def kind(self) -> Kind:
        if self.judgements:
            return "judges"
        return "embeddings" if self.embeddings else "turns"


def totals_by(
    dimension: Dimension,
    since: datetime,
    chosen: SpendFilter = ALL,
    *,
    config: Config | None = None,
    limit: int | None = None,
) -> list[CostTotal]:
    """Return the costs since then, of turns, of judges and of embeddings.

    Days are in order, other keys by cost, highest first. With the configuration, the
    totals of models have their savings. `limit` bounds the number of keys, except days.
    Takes a few queries: of the hourly totals of finished hours, and of indexes alone.
    """
    return read_page(dimension, since, chosen, config=config, limit=limit)[0]


def read_page(
    dimension: Dimension,
    since: datetime,
    chosen: SpendFilter = ALL,
    *,
    config: Config | None = None,
    limit: int | None = None,
    after: Cursor | None = None,
) -> tuple[list[CostTotal], Cursor | None]:
    """Return the totals after a cursor, and the cursor of a next page, if any.

    Days are one page.
    """
    period = period_sums.split(since, chosen.until or LATEST)
    expenses = spend_sources.expenses_source(dimension, chosen)
    source = spend_sources.turns_source(dimension, chosen)
    if dimension == "day":
        return [*_sum_days(period, source, expenses)], None
    rows = period_sums.read_groups(source, period, limit=limit, after=after)
    totals = [_total(dimension, source, row) for row in rows]
    if dimension == "model" and config is not None:
        totals = [_add_saving(config, total) for total in totals]
    end: Cursor | None = None
    if limit is not None and len(rows) == limit:
        end = totals[-1].micro_usd, rows[-1][: len(source.keys)]
    for row in period_sums.read_groups(expenses, period):
        total = _total(dimension, expenses, row)
        # Each is on the page of turns that cost about as much.
        is_later = end is not None and total.micro_usd < end[0]
        if not is_later and (after is None or total.micro_usd < after[0]):
            totals.append(total)
    return sorted(totals, key=lambda total: (-total.micro_usd, total.key or "")), end


def read_users(
    since: datetime, chosen: SpendFilter, *, limit: int, after: UUID | None = None
) -> tuple[list[CostTotal], UUID | None]:
    """Return the totals of the first users after one, in the order of their ids.

    Also returns the last one, unless there are no more. In the order of costs, each
    page would sum up the turns of all users. The first page has the expenses.
    """
    period = period_sums.split(since, chosen.until or LATEST)
    source = spend_sources.turns_source("user", chosen)
    rows = period_sums.read_by_key(source, period, limit=limit, after=after)
    totals = [_total("user", source, row) for row in rows]
    if after is None:
        expenses = spend_sources.expenses_source("user", chosen)
        groups = period_sums.read_groups(expenses, period)
        totals += [_total("user", expenses, row) for row in groups]
    return totals, rows[-1][0] if len(rows) == limit else None


def _total(dimension: Dimension, source: Source, row: Row) -> CostTotal:
    """Return the total of a group; two keys are joined by a slash."""
    end = len(source.keys)
    keys = [
        key for name, key in zip(source.keys, row, strict=False) if name != "purpose"
    ]
    key: str | None = None
    if keys and keys[0] is not None:
        # SQLite stores ids without hyphens.
        is_id = dimension in ("token", "user")
        key = "/".join(str(UUID(str(each)) if is_id else each) for each in keys)
    return CostTotal(key, **dict(zip(source.sums, row[end:], strict=True)))


def _sum_days(period: period_sums.Period, *sources: Source) -> Iterator[CostTotal]:
    """Yield the totals of each day that has any, in order."""
    days: dict[tuple[str, Kind], CostTotal] = {}
    for source in sources:
        for day, *row in period_sums.read_days(source, period):
            total = _total("day", source, tuple(row))
            if total.turns or total.kind != "turns":
                key = day, total.kind
                days[key] = _add(days.get(key, CostTotal(day)), total)
    for day, kind in sorted(days, key=lambda key: (key[0], KINDS.index(key[1]))):
        yield days[day, kind]


def _add(total: CostTotal, other: CostTotal) -> CostTotal:
    return replace(sum_totals([total, other]), key=total.key)


def counted_unit(dimension: Dimension) -> str:
    """Return the counted unit: calls for models and providers, otherwise turns."""
    return "calls" if dimension in MODEL_KEYS else "turns"


def sum_totals(totals: Sequence[CostTotal]) -> CostTotal:
    sums = {
        field.name: sum(getattr(total, field.name) for total in totals)
        for field in fields(CostTotal)
        if field.name != "key"
    }
    return CostTotal(None, **sums)


def _add_saving(config: Config, total: CostTotal) -> CostTotal:
    """Return a model's total with what prompt caching saved.

    At current prices of short prompts; 0 without a known price.
    """
    cached = total.cache_read_tokens, total.cache_write_tokens
    if total.key is None or not any(cached):
        return total
    saved = call_costs.cache_saving(config, total.key, *cached)
    return replace(total, saved_micro_usd=saved or 0)


def oldest_turn_at() -> datetime | None:
    oldest: datetime | None = Turn.objects.aggregate(at=Min("started_at"))["at"]
    return oldest
