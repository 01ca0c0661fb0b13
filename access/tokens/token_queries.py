"""Tokens as operators see them: with what they spent and when they were used last."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal
from uuid import UUID

from django.db.models import Q, QuerySet

from access.limits import time_windows, usage_limits
from access.models import Meter, Token
from access.users import identity
from core.ids import UserId

State = Literal["active", "expired", "revoked"]
Place = tuple[datetime, UUID]
"""Where a page ends: a token's `created_at` and `id`."""

PAGE = 200


@dataclass(frozen=True, slots=True)
class Listed:
    """A token and what became of it."""

    row: Token
    state: State
    spent_micro_usd: int = 0
    """In all its life."""
    month_micro_usd: int = 0
    """In this calendar month."""
    unpriced: int = 0
    """Turns whose price is not known: they are in neither sum."""
    last_used_at: datetime | None = None


def page(
    *,
    now: datetime,
    is_all: bool = False,
    after: Place | None = None,
    limit: int = PAGE,
) -> tuple[list[Listed], bool]:
    """Return tokens, the newest first, and whether there are more; in two queries.

    Those that are revoked or have expired come with `is_all`. `after` is the place of
    the last one seen.
    """
    rows = Token.objects.order_by("-created_at", "-id")
    if not is_all:
        rows = rows.filter(_is_active(now))
    if after is not None:
        at, last_id = after
        earlier = Q(created_at__lt=at) | Q(id__lt=last_id)
        rows = rows.filter(earlier, created_at__lte=at)
    found = list(rows[: limit + 1])
    return _with_use(found[:limit], now), len(found) > limit


def of(row: Token, now: datetime) -> Listed:
    """Return what became of a token."""
    return _with_use([row], now)[0]


def every(*, now: datetime, is_all: bool = False) -> Iterator[Listed]:
    """Yield tokens, the newest first, page by page."""
    after: Place | None = None
    has_more = True
    while has_more:
        found, has_more = page(now=now, is_all=is_all, after=after, limit=PAGE)
        yield from found
        if found:
            after = found[-1].row.created_at, found[-1].row.id


def of_user(user_id: UserId) -> QuerySet[Token]:
    """Return the tokens whose requests belong to a user."""
    # Operators name a user in several ways: by the name clients send, by its UUID.
    principals = Token.objects.order_by().values_list("principal", flat=True).distinct()
    names = [name for name in principals if identity.derive(name) == user_id]
    return Token.objects.filter(principal__in=names)


def count_active(user_id: UserId, *, now: datetime) -> int:
    """Return how many tokens still act for a user."""
    return of_user(user_id).filter(_is_active(now)).count()


def _state_of(row: Token, now: datetime) -> State:
    """Return whether a token is good for anything."""
    if row.revoked_at is not None:
        return "revoked"
    is_over = row.expires_at is not None and row.expires_at <= now
    return "expired" if is_over else "active"


def _is_active(now: datetime) -> Q:
    return Q(revoked_at=None) & (Q(expires_at=None) | Q(expires_at__gt=now))


def _with_use(rows: Sequence[Token], now: datetime) -> list[Listed]:
    seconds = int(now.timestamp())
    ever = time_windows.at(time_windows.EVER, seconds)
    month = time_windows.at(time_windows.CALENDAR_MONTH, seconds)
    subjects = [usage_limits.subject_of_token(row) for row in rows]
    meters = Meter.objects.filter(
        Q(window=ever.length, start=ever.start)
        | Q(window=month.length, start=month.start),
        subject__in=subjects,
    )
    used = {(meter.subject, meter.window): meter for meter in meters}
    return [
        _listed(
            row,
            _state_of(row, now),
            used.get((subject, ever.length)),
            used.get((subject, month.length)),
        )
        for row, subject in zip(rows, subjects, strict=True)
    ]


def _listed(
    row: Token, state: State, ever: Meter | None, month: Meter | None
) -> Listed:
    this_month = 0 if month is None else month.micro_usd
    if ever is None:
        return Listed(row, state, month_micro_usd=this_month)
    return Listed(
        row,
        state,
        spent_micro_usd=ever.micro_usd,
        month_micro_usd=this_month,
        unpriced=ever.unpriced,
        last_used_at=datetime.fromtimestamp(ever.last_at, UTC),
    )
