"""API tokens: shown once at creation, found by their digest.

The secret exists only in the result of `create_token`; the database stores its SHA-256.
Its 32 random bytes need no salt and no slow hash. Source: "API tokens" of the
reference.
"""

import hashlib
import hmac
import re
import secrets
import threading
import uuid
from collections.abc import Collection
from datetime import UTC, datetime
from typing import Any

from django.db import transaction
from django.db.models import F

from access.audit import audit_log
from access.audit.audit_events import Actor, AuditEvent
from access.errors import NewTokenInvalid, TokenAmbiguous, TokenUnknown
from access.models import ApiToken
from access.users import caller, identity
from access.users.caller import Budget

PREFIX = "sk-coulisse-"

MAX_LABEL_LENGTH = 255
MAX_LIMIT = 2**63 - 1
"""Micro-USD; the maximum of the column."""

MAX_CACHED = 10_000

MIN_ID_PREFIX = 4
MAX_ID_LENGTH = 32

FIELDS = (
    "digest",
    "revoked_at",
    "id",
    "label",
    "principal",
    "budget",
    "limit_micro_usd",
    "agents",
    "expires_at",
    "version",
)


def create_token(
    label: str,
    principal: str,
    *,
    by: Actor,
    budget: Budget = "unlimited",
    limit_micro_usd: int | None = None,
    expires_at: datetime | None = None,
    agents: Collection[str] | None = None,
    now: datetime | None = None,
) -> tuple[ApiToken, str]:
    """Create a token; return its row and the only copy of its secret.

    Without `agents`, the token may call all agents. Raises `NewTokenInvalid`, whose
    `param` is the invalid argument.
    """
    now = now or datetime.now(UTC)
    secret = PREFIX + secrets.token_urlsafe(32)
    row = ApiToken(
        digest=digest(secret),
        label=_check_text(label, "label", MAX_LABEL_LENGTH),
        principal=_check_text(principal, "principal", identity.MAX_LENGTH),
        budget=budget,
        limit_micro_usd=_check_limit(budget, limit_micro_usd),
        agents=_check_agents(agents),
        created_at=now,
        expires_at=_check_expiry(expires_at, now),
    )
    with transaction.atomic():
        row.save(force_insert=True)
        _record("token.create", row, by, **_terms(row))
    return row, secret


def digest(secret: str) -> str:
    """Return the digest that the database stores for a secret."""
    return hashlib.sha256(secret.encode(errors="surrogatepass")).hexdigest()


def find_by_digest(digest: str, now: datetime) -> caller.VerifiedToken | None:
    """Return the token with this digest; None if unknown, revoked or expired."""
    row = ApiToken.objects.filter(digest=digest).values_list(*FIELDS).first()
    if row is None or not hmac.compare_digest(row[0], digest):
        return None
    return _valid_token(*row[1:], now=now)


def reload(token: caller.VerifiedToken, now: datetime) -> caller.VerifiedToken | None:
    """Return the current version of a cached token, and cache it.

    Returns None as `find_by_digest` does.
    """
    row = ApiToken.objects.filter(pk=token.id).values_list(*FIELDS).first()
    current = None if row is None else _valid_token(*row[1:], now=now)
    if row is not None and current is not None:
        TOKEN_CACHE.put(row[0], current)
    return current


def _valid_token(
    revoked_at: datetime | None, *values: Any, now: datetime
) -> caller.VerifiedToken | None:
    token = _verified_token(*values)
    is_expired = token.expires_at is not None and token.expires_at <= now
    return None if is_expired or revoked_at is not None else token


def _verified_token(
    id: uuid.UUID,
    label: str,
    principal: str,
    budget: Budget,
    limit_micro_usd: int | None,
    agents: list[str] | None,
    expires_at: datetime | None,
    version: int,
) -> caller.VerifiedToken:
    return caller.VerifiedToken(
        id=id,
        label=label,
        principal=principal,
        budget=budget,
        limit_micro_usd=limit_micro_usd,
        agents=None if agents is None else frozenset(agents),
        expires_at=expires_at,
        version=version,
    )


def get_by_id_prefix(id: str) -> ApiToken:
    """Return the token with this id or unique prefix of an id.

    Raises `TokenUnknown`, and `TokenAmbiguous` if several ids match.
    """
    # Lists show ids as `4f3c91d2…`.
    prefix = id.strip().removesuffix("…").replace("-", "").lower()
    if not re.fullmatch(rf"[0-9a-f]{{{MIN_ID_PREFIX},{MAX_ID_LENGTH}}}", prefix):
        raise TokenUnknown(
            f"'{id:.80}' is not the id of a token: give at least its first "
            f"{MIN_ID_PREFIX} characters, as `token list` shows them"
        )
    bounds = tuple(uuid.UUID(prefix.ljust(MAX_ID_LENGTH, digit)) for digit in "0f")
    rows = list(ApiToken.objects.filter(id__range=bounds).order_by("id")[:10])
    if not rows:
        raise TokenUnknown(f"there is no token {id:.80}")
    if len(rows) > 1:
        raise TokenAmbiguous(id, [f"{row.id} ({row.label})" for row in rows])
    return rows[0]


def labels_by_id(ids: Collection[uuid.UUID]) -> dict[str, str]:
    """Return the labels of tokens, by their ids as text."""
    rows = ApiToken.objects.filter(pk__in=ids).values_list("pk", "label")
    return {str(token_id): label for token_id, label in rows}


def revoke(id: str, *, by: Actor, now: datetime | None = None) -> tuple[ApiToken, bool]:
    """Revoke a token; return it and whether it was valid before.

    Takes an id or its unique prefix, and raises as `get_by_id_prefix` does.
    """
    row = get_by_id_prefix(id)
    with transaction.atomic():
        updated = ApiToken.objects.filter(pk=row.pk, revoked_at=None).update(
            revoked_at=now or datetime.now(UTC), version=F("version") + 1
        )
        if updated:
            _record("token.revoke", row, by)
    row.refresh_from_db()
    return row, bool(updated)


def _record(action: str, row: ApiToken, by: Actor, **details: Any) -> None:
    details = {"label": row.label, "principal": row.principal, **details}
    audit_log.write(AuditEvent(action, by, str(row.id), details))


def _terms(row: ApiToken) -> dict[str, Any]:
    """Return the terms of a token, without those that are not set."""
    terms = {
        "limit_micro_usd": row.limit_micro_usd,
        "agents": row.agents,
        "expires_at": row.expires_at and row.expires_at.isoformat(),
    }
    set_terms = {name: value for name, value in terms.items() if value is not None}
    return {"budget": row.budget, **set_terms}


class TokenCache:
    """The recently used tokens of this process; the oldest are evicted.

    A cached token may have been revoked or changed: callers validate its id and version
    in the database before they use it, and discard it if that fails.
    """

    def __init__(self, limit: int = MAX_CACHED) -> None:
        self._limit = limit
        self._tokens: dict[str, caller.VerifiedToken] = {}
        self._digests: dict[uuid.UUID, str] = {}
        self._lock = threading.Lock()

    def put(self, digest: str, token: caller.VerifiedToken) -> None:
        """Cache a token under its digest."""
        with self._lock:
            if digest not in self._tokens and len(self._tokens) >= self._limit:
                oldest = next(iter(self._tokens))
                self._digests.pop(self._tokens.pop(oldest).id, None)
            self._tokens[digest] = token
            self._digests[token.id] = digest

    def get(self, digest: str) -> caller.VerifiedToken | None:
        """Return the cached token."""
        return self._tokens.get(digest)

    def discard(self, token_id: uuid.UUID) -> None:
        """Remove a token, so that the next request reads it from the database."""
        with self._lock:
            digest = self._digests.pop(token_id, None)
            if digest is not None:
                self._tokens.pop(digest, None)


TOKEN_CACHE = TokenCache()
"""The cache of this process."""


# Validation of new tokens.


def _check_text(text: str, param: str, max_length: int) -> str:
    text = text.strip()
    if not text:
        raise NewTokenInvalid(f"the {param} is blank; it must not be empty", param)
    if len(text) > max_length:
        raise NewTokenInvalid(
            f"the {param} has {len(text)} characters; the maximum is {max_length}",
            param,
        )
    if not text.isprintable():
        # A line break could forge a line of a list.
        raise NewTokenInvalid(
            f"the {param} has invisible characters; remove them: {text[:80]!r}", param
        )
    return text


def _check_limit(budget: Budget, limit: int | None) -> int | None:
    param = "limit_micro_usd"
    if budget not in ("unlimited", "total", "monthly"):
        raise NewTokenInvalid(
            f"'{budget:.40}' is not a budget: use unlimited, total or monthly",
            "budget",
        )
    if budget == "unlimited" and limit is not None:
        raise NewTokenInvalid("a limit needs a budget: total or monthly", param)
    if budget != "unlimited" and limit is None:
        raise NewTokenInvalid(f"a {budget} budget needs a limit in USD", param)
    if limit is not None and not 0 <= limit <= MAX_LIMIT:
        raise NewTokenInvalid(
            "the limit must be from 0 to 9,223,372,036,854 USD", param
        )
    return limit


def _check_agents(names: Collection[str] | None) -> list[str] | None:
    if names is None:
        return None
    agents = sorted({_check_text(name, "agents", MAX_LABEL_LENGTH) for name in names})
    if not agents:
        raise NewTokenInvalid(
            "the list of agents is empty: name an agent, or leave it out for all",
            "agents",
        )
    return agents


def _check_expiry(expires_at: datetime | None, now: datetime) -> datetime | None:
    if expires_at is not None and expires_at <= now:
        raise NewTokenInvalid(
            f"the expiry {expires_at:%Y-%m-%d %H:%M} UTC is in the past",
            "expires_at",
        )
    return expires_at
