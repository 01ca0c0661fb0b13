"""API tokens: found by the digest of their secret, which only `issue` returns."""

import hmac
import uuid
from collections.abc import Collection, Iterator, Sequence
from datetime import UTC, datetime
from itertools import islice
from typing import Any, Literal, cast

from django.db import connection, models
from django.db.models import F, Q

from access.errors import TokenAmbiguous, TokenUnknown
from access.limits import time_windows
from access.models import counter_sql
from access.models.counters import UsageCounter
from access.tokens import token_secrets, token_terms
from access.users.caller import CLIENT_USERS, Budget, ClientUsers, VerifiedToken
from core import ids
from core.history import CHOICES, History

MIN_ID_PREFIX = 4
PAGE_SIZE = 200


class BudgetPeriod(models.TextChoices):
    UNLIMITED = "unlimited"
    TOTAL = "total"
    MONTHLY = "monthly"


class ApiTokenQuerySet(models.QuerySet["ApiToken"]):
    def issue(
        self,
        label: str,
        principal: str,
        *,
        budget: Budget = "unlimited",
        limit_micro_usd: int | None = None,
        expires_at: datetime | None = None,
        agents: Collection[str] | None = None,
        history: History | Literal[""] = "",
        client_users: ClientUsers = "refuse",
        now: datetime | None = None,
    ) -> tuple["ApiToken", str]:
        """Create a token; return its row and the only copy of its secret.

        Without `agents`, the token may call all agents. Raises `NewTokenInvalid`, whose
        `param` is the invalid argument.
        """
        now = now or datetime.now(UTC)
        secret = token_secrets.new_secret()
        row = self.create(
            digest=token_secrets.digest(secret),
            label=token_terms.check_text(label, "label", token_terms.MAX_LABEL_LENGTH),
            principal=token_terms.check_principal(principal, client_users),
            budget=budget,
            limit_micro_usd=token_terms.check_limit(budget, limit_micro_usd),
            agents=token_terms.check_agents(agents),
            history=token_terms.check_history(history),
            client_users=client_users,
            created_at=now,
            expires_at=token_terms.check_expiry(expires_at, now),
        )
        return row, secret

    def verify(self, digest: str, now: datetime) -> VerifiedToken | None:
        """Return the token with this digest; None if unknown, revoked or expired."""
        row = self.filter(digest=digest).first()
        if row is None or not hmac.compare_digest(row.digest, digest):
            return None
        return row.verified(now)

    def is_current(self, token: VerifiedToken, now: datetime) -> bool:
        """Return whether a token is unchanged, not revoked and not expired.

        Raw SQL, because each turn without limits asks: 30 µs on SQLite, 320 µs by
        the ORM.
        """
        with connection.cursor() as cursor:
            cursor.execute(
                f"SELECT 1 WHERE {counter_sql.IS_CURRENT}",
                counter_sql.guard_params(token, now),
            )
            return cursor.fetchone() is not None

    def active(self, now: datetime) -> "ApiTokenQuerySet":
        """Return the tokens that are neither revoked nor expired."""
        return self.filter(Q(expires_at=None) | Q(expires_at__gt=now), revoked_at=None)

    def by_id_prefix(self, id: str) -> "ApiToken":
        """Return the token with this id or unique prefix of an id.

        Raises `TokenUnknown`, and `TokenAmbiguous` if several ids match.
        """
        # Lists show ids as `4f3c91d2…`.
        bounds = ids.uuid_range(id.strip().removesuffix("…"), min_digits=MIN_ID_PREFIX)
        if bounds is None:
            raise TokenUnknown(
                f"'{id:.80}' is not the id of a token: give at least its first "
                f"{MIN_ID_PREFIX} characters, as `token list` shows them"
            )
        rows = list(self.filter(id__range=bounds).order_by("id")[:10])
        if not rows:
            raise TokenUnknown(f"there is no token {id:.80}")
        if len(rows) > 1:
            raise TokenAmbiguous(id, [f"{row.id} ({row.label})" for row in rows])
        return rows[0]

    def find_ids(self, text: str) -> list[uuid.UUID]:
        """Return the ids of the tokens with this label, or this prefix of an id."""
        is_named = Q(label=text)
        bounds = ids.uuid_range(text, min_digits=MIN_ID_PREFIX)
        if bounds is not None:
            is_named |= Q(pk__range=bounds)
        return list(self.filter(is_named).values_list("pk", flat=True))

    def labels(self, ids: Collection[uuid.UUID]) -> dict[str, str]:
        """Return the labels of tokens, by their ids as text."""
        rows = self.filter(pk__in=ids).values_list("pk", "label")
        return {str(token_id): label for token_id, label in rows}

    def with_usage(self, now: datetime) -> Iterator["ApiToken"]:
        """Yield the tokens with their usage, newest first."""
        rows = self.order_by("-created_at", "-id").iterator(PAGE_SIZE)
        while page := list(islice(rows, PAGE_SIZE)):
            yield from self.load_usage(page, now)

    def load_usage(self, rows: Sequence["ApiToken"], now: datetime) -> list["ApiToken"]:
        """Set the spending and the last use of tokens, in one query; return them."""
        seconds = int(now.timestamp())
        total = time_windows.window_at(time_windows.EVER, seconds)
        month = time_windows.window_at(time_windows.CALENDAR_MONTH, seconds)
        by_subject = {row.counter_subject: row for row in rows}
        for row in rows:
            row.as_of = now
        counters = UsageCounter.objects.filter(
            Q(window=total.length, start=total.start)
            | Q(window=month.length, start=month.start),
            subject__in=by_subject,
        )
        for counter in counters:
            row = by_subject[counter.subject]
            if counter.window == month.length:
                row.spent_this_month_micro_usd = counter.micro_usd
                continue
            row.spent_micro_usd = counter.micro_usd
            row.unpriced_turns = counter.unpriced
            row.last_used_at = datetime.fromtimestamp(counter.last_at, UTC)
        return list(rows)


class ApiToken(models.Model):
    """An issued API key; the key itself is not stored."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4)
    digest = models.CharField(max_length=64, unique=True)
    """The SHA-256 of the whole key, in hexadecimal."""
    label = models.CharField(max_length=token_terms.MAX_LABEL_LENGTH)
    principal = models.CharField(max_length=token_terms.MAX_PRINCIPAL_LENGTH)
    """The user that its requests belong to, as the operator names them."""
    budget = models.CharField(
        max_length=16, choices=BudgetPeriod, default=BudgetPeriod.UNLIMITED
    )
    limit_micro_usd = models.BigIntegerField(null=True)
    agents = models.JSONField(null=True)
    """The names of the agents that it may call; null means all."""
    history = models.CharField(
        max_length=8, choices=[(each, each) for each in CHOICES], blank=True, default=""
    )
    """How its requests' messages are read; "" leaves it to the agent."""
    client_users = models.CharField(
        max_length=8,
        choices=[(each, each) for each in CLIENT_USERS],
        default="refuse",
    )
    """What happens with the users that its requests name; see `ClientUsers`."""
    created_at = models.DateTimeField()
    expires_at = models.DateTimeField(null=True)
    revoked_at = models.DateTimeField(null=True)
    version = models.IntegerField(default=1)
    """Incremented with each change; processes validate their cached tokens by it."""

    # `ApiTokenQuerySet.load_usage` sets these.
    spent_micro_usd = 0
    spent_this_month_micro_usd = 0
    unpriced_turns = 0
    """Turns without a known price, which neither sum includes."""
    last_used_at: datetime | None = None
    as_of: datetime | None = None
    """The time of these values and of `state`; None is now."""

    objects = ApiTokenQuerySet.as_manager()

    class Meta:
        verbose_name = "API token"
        indexes = [
            models.Index(fields=["created_at", "id"], name="access_apitoken_created")
        ]
        constraints = [
            models.CheckConstraint(
                condition=Q(budget__in=BudgetPeriod.values),
                name="access_apitoken_budget",
            ),
            models.CheckConstraint(
                condition=Q(budget="unlimited", limit_micro_usd=None)
                | (~Q(budget="unlimited") & Q(limit_micro_usd__gte=0)),
                name="access_apitoken_limit",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.label} ({self.principal})"

    def verified(self, now: datetime) -> VerifiedToken | None:
        """Return the token for callers; None if it is revoked or expired."""
        if self.revoked_at is not None or (self.expires_at and self.expires_at <= now):
            return None
        return VerifiedToken(
            id=self.pk,
            label=self.label,
            principal=self.principal,
            budget=cast(Budget, self.budget),
            limit_micro_usd=self.limit_micro_usd,
            agents=None if self.agents is None else frozenset(self.agents),
            expires_at=self.expires_at,
            history=cast(History, self.history) or None,
            client_users=cast(ClientUsers, self.client_users),
            version=self.version,
        )

    @property
    def counter_subject(self) -> str:
        return f"token:{self.id.hex}"

    @property
    def terms(self) -> dict[str, Any]:
        """Its purpose and its permissions, as the audit records them."""
        terms = {
            "label": self.label,
            "principal": self.principal,
            "budget": self.budget,
            "limit_micro_usd": self.limit_micro_usd,
            "agents": self.agents,
            "history": self.history or None,
            "client_users": None
            if self.client_users == "refuse"
            else self.client_users,
            "expires_at": self.expires_at and self.expires_at.isoformat(),
        }
        return {name: value for name, value in terms.items() if value is not None}

    @property
    def state(self) -> Literal["active", "expired", "revoked"]:
        if self.revoked_at is not None:
            return "revoked"
        ends_at = self.expires_at
        now = self.as_of or datetime.now(UTC)
        is_expired = ends_at is not None and ends_at <= now
        return "expired" if is_expired else "active"

    @property
    def share(self) -> float | None:
        """The used share of its budget; None if it is unlimited."""
        limit = self.limit_micro_usd
        if limit is None:
            return None
        is_monthly = self.budget == BudgetPeriod.MONTHLY
        used = self.spent_this_month_micro_usd if is_monthly else self.spent_micro_usd
        return min(1.0, used / limit) if limit else 1.0

    def revoke(self, now: datetime | None = None) -> bool:
        """Revoke it; return whether it was valid before."""
        rows = ApiToken.objects.filter(pk=self.pk, revoked_at=None)
        changed = rows.update(
            revoked_at=now or datetime.now(UTC), version=F("version") + 1
        )
        self.refresh_from_db()
        return bool(changed)
