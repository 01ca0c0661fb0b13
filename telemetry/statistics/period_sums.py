"""Sums of a period: the totals of its finished hours, and the rows of the rest."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta
from typing import Any

from django.core.exceptions import EmptyResultSet
from django.db import connection
from django.db.models import QuerySet, Value

from database.repeated_queries import EARLIEST, LATEST, adapt_value, run_for_each
from telemetry.models import RolledHour
from telemetry.models.hourly_totals import HOUR
from telemetry.models.turn_totals import sum_groups
from telemetry.statistics.time_buckets import DayBucket

Expressions = Mapping[str, Any]
Row = tuple[Any, ...]
Cursor = tuple[int, Row]
"""The cost and the keys of a group."""

MAX_GAPS = 100
"""SELECTs of one statement; SQLite accepts 500."""
DAY = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class Source:
    """Rows, and the hourly totals that may replace them."""

    rows: QuerySet[Any]
    """Those from `EARLIEST` to `LATEST`, which periods replace."""
    at: str
    """The field with the time of a row."""
    keys: Expressions
    sums: Expressions
    """One of them is `micro_usd`."""
    totals: QuerySet[Any] | None = None
    """Hourly totals of any time; None if none are of these rows."""
    totals_keys: Expressions | None = None
    totals_sums: Expressions | None = None


@dataclass(frozen=True, slots=True)
class Period:
    """A period; both ends belong to it."""

    since: datetime
    until: datetime
    hours: Sequence[datetime]
    """The finished hours whose totals are used."""
    gaps: Sequence[tuple[datetime, datetime]]
    """The rest of it."""

    def gaps_of(self, source: Source) -> Sequence[tuple[datetime, datetime]]:
        """Return the parts whose rows are summed."""
        return [(self.since, self.until)] if source.totals is None else self.gaps

    def totals_of(self, source: Source) -> QuerySet[Any] | None:
        """Return the totals of the other parts."""
        if source.totals is None or not self.hours:
            return None
        ends = {"hour__gte": self.hours[0], "hour__lte": self.hours[-1]}
        return source.totals.filter(**ends)


def split(since: datetime, until: datetime) -> Period:
    """Return a period with the totals of its finished hours."""
    hours = RolledHour.objects.within(since, until)
    gaps: list[tuple[datetime, datetime]] = []
    start = since
    for number, hour in enumerate(hours):
        if hour > start:
            if len(gaps) == MAX_GAPS:
                hours = hours[:number]
                break
            gaps.append((start, hour - datetime.resolution))
        start = hour + HOUR
    if start <= until:
        gaps.append((start, until))
    return Period(since, until, hours, gaps)


def read_groups(
    source: Source,
    period: Period,
    *,
    limit: int | None = None,
    after: Cursor | None = None,
) -> list[Row]:
    """Return the keys and the sums of each group, the most expensive ones first.

    In one statement: databases add up, order and limit the groups.
    """
    parts, bound = [], []
    if sql := _compile(sum_groups(source.rows, source.keys, source.sums)):
        for start, end in period.gaps_of(source):
            values = {EARLIEST: start, LATEST: end}
            adapted = {
                adapt_value(name): adapt_value(at) for name, at in values.items()
            }
            parts.append(sql[0])
            bound += [adapted.get(each, each) for each in sql[1]]
    if (totals := period.totals_of(source)) is not None:
        groups = sum_groups(totals, source.totals_keys or {}, source.totals_sums or {})
        if sql := _compile(groups):
            parts.append(sql[0])
            bound += sql[1]
    if not parts:
        return []
    keys = [f"by_{name}" for name in source.keys]
    sums = [f"{name}_total" for name in source.sums]
    statement, conditions = _merge(parts, keys, sums), ""
    if after is not None:
        conditions, cursor_values = _later_groups(keys, after)
        bound += cursor_values
    order = f"ORDER BY micro_usd_total DESC, {keys[0]} IS NULL, {', '.join(keys)}"
    limited = "" if limit is None else f"LIMIT {limit:d}"
    with connection.cursor() as cursor:
        cursor.execute(f"{statement} {conditions} {order} {limited}", bound)
        return list(cursor.fetchall())


def read_by_key(source: Source, period: Period, *, limit: int, after: Any) -> list[Row]:
    """Return the first groups after a key, in the order of their one key, of rows only.

    Reads no more rows than those of the groups, if an index begins with the key.
    """
    (key,) = source.keys.values()
    ends = {f"{source.at}__gte": period.since, f"{source.at}__lte": period.until}
    rows = source.rows.filter(**ends).alias(page_key=key)
    if after is not None:
        rows = rows.filter(page_key__gt=after)
    groups = sum_groups(rows, source.keys, source.sums).order_by("by_key")
    return [tuple(row) for row in groups[:limit]]


def _compile(query: Any) -> tuple[str, Sequence[Any]] | None:
    """Return a statement and its parameters; None if it would find nothing."""
    try:
        sql, parameters = query.query.sql_with_params()
    except EmptyResultSet:
        return None
    return sql, parameters


def _merge(parts: Sequence[str], keys: Sequence[str], sums: Sequence[str]) -> str:
    """Return the statement that adds the groups of all parts up."""
    if len(parts) == 1:
        return f"SELECT * FROM ({parts[0]}) AS merged"  # noqa: S608  only names
    by = ", ".join(keys)
    # PostgreSQL's sum of bigint is a decimal.
    added = ", ".join(f"CAST(SUM({name}) AS bigint) AS {name}" for name in sums)
    united = " UNION ALL ".join(parts)
    groups = f"SELECT {by}, {added} FROM ({united}) AS part GROUP BY {by}"  # noqa: S608
    return f"SELECT * FROM ({groups}) AS merged"  # noqa: S608


def _later_groups(keys: Sequence[str], after: Cursor) -> tuple[str, list[Any]]:
    """Return the condition for the groups after one, and its values."""
    micro_usd, values = after
    if values[0] is None:
        return "WHERE micro_usd_total < %s", [micro_usd]
    marks = ", ".join(["%s"] * len(keys))
    later = f"(({', '.join(keys)}) > ({marks}) OR {keys[0]} IS NULL)"
    return (
        f"WHERE micro_usd_total < %s OR (micro_usd_total = %s AND {later})",
        [micro_usd, micro_usd, *values],
    )


def read_days(source: Source, period: Period) -> Iterator[Row]:
    """Yield each day (UTC), its other keys and its sums, in parts to be added up.

    Each day is a range of an index, because for groups databases would sort all rows.
    """
    rows = sum_groups(source.rows, source.keys or {"all": Value(1)}, source.sums)
    days = list(_days(source, period))
    for day, row in run_for_each(rows, days) if days else ():
        yield day, *(row if source.keys else row[1:])
    if (totals := period.totals_of(source)) is not None:
        keys = {"day": DayBucket("hour_id"), **(source.totals_keys or {})}
        yield from sum_groups(totals, keys, source.totals_sums or {})


def _days(
    source: Source, period: Period
) -> Iterator[tuple[str, Mapping[datetime, datetime]]]:
    """Yield the days of the gaps from the first to the last row, each with its part."""
    gaps = period.gaps_of(source)
    if not gaps:
        return
    ends = {
        f"{source.at}__gte": gaps[0][0],
        f"{source.at}__lte": gaps[-1][1],
    }
    times = source.rows.filter(**ends).order_by(source.at)
    times = times.values_list(source.at, flat=True)
    # In two queries: for both together SQLite would scan all rows in between.
    first, last = times.first(), times.last()
    if first is None or last is None:
        return
    for gap_start, gap_end in gaps:
        at, until = max(gap_start, first), min(gap_end, last)
        while at <= until:
            midnight = datetime.combine(at.astimezone(UTC), time.min, UTC) + DAY
            end = min(midnight - datetime.resolution, until)
            yield f"{at.astimezone(UTC):%Y-%m-%d}", {EARLIEST: at, LATEST: end}
            at = midnight
