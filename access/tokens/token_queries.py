"""Queries of tokens for operators, with their spending and last use."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal
from uuid import UUID

from django.db.models import Q, QuerySet

from access.limits import time_windows, usage_limits
from access.models import ApiToken, UsageCounter
from access.users import identity
from core.ids import UserId

TokenState = Literal["active", "expired", "revoked"]
Cursor = tuple[datetime, UUID]
"""The cursor of a page: a token's `created_at` and `id`."""

PAGE_SIZE = 200


@dataclass(frozen=True, slots=True)
class TokenUsage:
    """A token with its usage."""

    row: ApiToken
    state: TokenState
    spent_micro_usd: int = 0
    """Total spending."""
    month_micro_usd: int = 0
    """Spending in this calendar month."""
    unpriced: int = 0
    """Turns without a known price, which neither sum includes."""
    last_used_at: datetime | None = None


def page_tokens(
    *,
    now: datetime,
    include_inactive: bool = False,
    after: Cursor | None = None,
    limit: int = PAGE_SIZE,
) -> tuple[list[TokenUsage], bool]:
    """Return tokens, newest first, and whether there are more; in two queries.

    Inactive tokens are revoked or expired. `after` is the cursor of the last token
    seen.
    """
    rows = ApiToken.objects.order_by("-created_at", "-id")
    if not include_inactive:
        rows = rows.filter(_is_active(now))
    if after is not None:
        at, last_id = after
        earlier = Q(created_at__lt=at) | Q(id__lt=last_id)
        rows = rows.filter(earlier, created_at__lte=at)
    page = list(rows[: limit + 1])
    return _load_usages(page[:limit], now), len(page) > limit


def load_usage(row: ApiToken, now: datetime) -> TokenUsage:
    """Return a token with its usage."""
    return _load_usages([row], now)[0]


def iterate_tokens(
    *, now: datetime, include_inactive: bool = False
) -> Iterator[TokenUsage]:
    """Yield tokens, newest first, page by page."""
    after: Cursor | None = None
    has_more = True
    while has_more:
        page, has_more = page_tokens(
            now=now, include_inactive=include_inactive, after=after, limit=PAGE_SIZE
        )
        yield from page
        if page:
            after = page[-1].row.created_at, page[-1].row.id


def user_tokens(user_id: UserId) -> QuerySet[ApiToken]:
    """Return the tokens whose requests belong to a user."""
    # Operators name a user in several ways: by the name clients send, or by its UUID.
    principals = (
        ApiToken.objects.order_by().values_list("principal", flat=True).distinct()
    )
    names = [name for name in principals if identity.derive_user_id(name) == user_id]
    return ApiToken.objects.filter(principal__in=names)


def count_active(user_id: UserId, *, now: datetime) -> int:
    """Return how many valid tokens belong to a user."""
    return user_tokens(user_id).filter(_is_active(now)).count()


def _state_of(row: ApiToken, now: datetime) -> TokenState:
    """Return whether a token is active, expired or revoked."""
    if row.revoked_at is not None:
        return "revoked"
    is_expired = row.expires_at is not None and row.expires_at <= now
    return "expired" if is_expired else "active"


def _is_active(now: datetime) -> Q:
    return Q(revoked_at=None) & (Q(expires_at=None) | Q(expires_at__gt=now))


def _load_usages(rows: Sequence[ApiToken], now: datetime) -> list[TokenUsage]:
    seconds = int(now.timestamp())
    total = time_windows.window_at(time_windows.EVER, seconds)
    month = time_windows.window_at(time_windows.CALENDAR_MONTH, seconds)
    subjects = [usage_limits.token_subject(row) for row in rows]
    counters = {
        (counter.subject, counter.window): counter
        for counter in UsageCounter.objects.filter(
            Q(window=total.length, start=total.start)
            | Q(window=month.length, start=month.start),
            subject__in=subjects,
        )
    }
    return [
        _token_usage(
            row,
            _state_of(row, now),
            counters.get((subject, total.length)),
            counters.get((subject, month.length)),
        )
        for row, subject in zip(rows, subjects, strict=True)
    ]


def _token_usage(
    row: ApiToken,
    state: TokenState,
    total: UsageCounter | None,
    month: UsageCounter | None,
) -> TokenUsage:
    month_micro_usd = 0 if month is None else month.micro_usd
    if total is None:
        return TokenUsage(row, state, month_micro_usd=month_micro_usd)
    return TokenUsage(
        row,
        state,
        spent_micro_usd=total.micro_usd,
        month_micro_usd=month_micro_usd,
        unpriced=total.unpriced,
        last_used_at=datetime.fromtimestamp(total.last_at, UTC),
    )
