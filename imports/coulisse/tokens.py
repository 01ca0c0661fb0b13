"""API tokens: clients keep their keys, because both versions store the same digest."""

import re
import uuid
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import cast, get_args

from django.db.models import Q

from access.limits import time_windows
from access.models import ApiToken, UsageCounter
from access.tokens import token_terms
from access.users.caller import Budget
from imports.coulisse.source_database import (
    Row,
    RowDamaged,
    SourceDatabase,
    Table,
    read_text,
    read_time,
    read_uuid,
)

DIGEST = re.compile("[0-9a-f]{64}")
"""A SHA-256 in hexadecimal."""
TOKENS = Table(
    "api_tokens",
    "API tokens",
    (
        "id",
        "label",
        "principal",
        "secret_hash",
        "budget_kind",
        "budget_micro_usd",
        "created_at",
        "last_used_at",
        "revoked_at",
    ),
)
USAGE_QUERY = """
    SELECT coalesce(sum(cost_micro_usd), 0) total, count(*) turns,
        coalesce(sum(CASE WHEN created_at >= ? THEN cost_micro_usd END), 0) month,
        count(CASE WHEN created_at >= ? THEN 1 END) month_turns
    FROM token_usage WHERE token_id = ?
"""


def import_tokens(source: SourceDatabase) -> None:
    """Import tokens, and what they have spent of their budgets."""
    source.import_rows(
        TOKENS,
        lambda row: (_read_token(row), row),
        lambda tokens: _write(source, tokens),
    )


def _read_token(row: Row) -> ApiToken:
    digest = read_text(row, "secret_hash").lower()
    if not DIGEST.fullmatch(digest):
        raise RowDamaged("'secret_hash' is not a SHA-256 in hexadecimal")
    budget, limit = _read_budget(row)
    label, principal = read_text(row, "label"), read_text(row, "principal")
    return ApiToken(
        id=read_uuid(row, "id"),
        digest=digest,
        label=token_terms.check_text(label, "label", token_terms.MAX_LABEL_LENGTH),
        principal=token_terms.check_principal(principal, "refuse"),
        budget=budget,
        limit_micro_usd=token_terms.check_limit(budget, limit),
        created_at=read_time(row, "created_at"),
        revoked_at=None if row["revoked_at"] is None else read_time(row, "revoked_at"),
    )


def _read_budget(row: Row) -> tuple[Budget, int | None]:
    """Return the budget and its limit; raises `RowDamaged`.

    The Rust version takes an unreadable budget as unlimited, we do not.
    """
    budget, limit = read_text(row, "budget_kind"), row["budget_micro_usd"]
    if budget not in get_args(Budget):
        raise RowDamaged(f"the budget '{budget:.40}' is unknown")
    if budget == "unlimited":
        return "unlimited", None
    if not isinstance(limit, int):
        raise RowDamaged("'budget_micro_usd' is missing")
    return cast(Budget, budget), limit


def _write(source: SourceDatabase, tokens: Sequence[tuple[ApiToken, Row]]) -> None:
    known = Q(pk__in=[token.pk for token, _ in tokens])
    known |= Q(digest__in=[token.digest for token, _ in tokens])
    rows = ApiToken.objects.filter(known)
    known_ids = {value for pair in rows.values_list("pk", "digest") for value in pair}
    new = [
        (token, row)
        for token, row in tokens
        if not {token.pk, token.digest} & known_ids
    ]
    ApiToken.objects.bulk_create(token for token, _ in new)
    counters = [c for token, row in new for c in _read_usage(source, token, row)]
    UsageCounter.objects.bulk_create(counters)
    source.report.count(TOKENS.kind, written=len(new), existing=len(tokens) - len(new))


def _read_usage(
    source: SourceDatabase, token: ApiToken, row: Row
) -> list[UsageCounter]:
    """Return the counters of all time and of this month, which budgets limit."""
    now = int(datetime.now(UTC).timestamp())
    if "token_usage" not in source.tables:
        return []
    month = time_windows.window_at(time_windows.CALENDAR_MONTH, now)
    ever = time_windows.window_at(time_windows.EVER, now)
    values = [month.start, month.start, str(uuid.UUID(str(row["id"])))]
    (sums,) = source.query(USAGE_QUERY, values)
    last_used = row["last_used_at"]
    last_at = last_used if isinstance(last_used, int) else None
    if not sums["turns"] and last_at is None:
        return []
    return [
        UsageCounter(
            subject=token.counter_subject,
            window=window.length,
            start=window.start,
            requests=turns,
            micro_usd=spent,
            last_at=last_at if last_at is not None else now,
        )
        for window, turns, spent in (
            (ever, sums["turns"], sums["total"]),
            (month, sums["month_turns"], sums["month"]),
        )
    ]
