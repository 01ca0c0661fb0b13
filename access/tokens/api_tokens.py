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
    *("digest", "revoked_at", "id", "label", "principal"),
    *("budget", "limit_micro_usd", "agents", "expires_at", "version"),
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

    The limit is in micro-USD; without `agents` it may call all of them. Raises
    `NewTokenInvalid`, whose `param` is the invalid argument.
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
    found = ApiToken.objects.filter(digest=digest).values_list(*FIELDS).first()
    if found is None or not hmac.compare_digest(found[0], digest):
        return None
    return _unless_expired(*found[1:], now=now)


def reload(token: caller.VerifiedToken, now: datetime) -> caller.VerifiedToken | None:
    """Return the current version of a cached token, and cache it.

    Returns None as `find_by_digest` does.
    """
    found = ApiToken.objects.filter(pk=token.id).values_list(*FIELDS).first()
    fresh = None if found is None else _unless_expired(*found[1:], now=now)
    if found is not None and fresh is not None:
        TOKEN_CACHE.put(found[0], fresh)
    return fresh


def _unless_expired(
    revoked_at: datetime | None, *values: Any, now: datetime
) -> caller.VerifiedToken | None:
    token = _verified_token(*values)
    lasts = token.expires_at is None or token.expires_at > now
    return token if lasts and revoked_at is None else None


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
    allowed = None if agents is None else frozenset(agents)
    return caller.VerifiedToken(
        *(id, label, principal, budget, limit_micro_usd, allowed, expires_at, version)
    )


def get_by_id_prefix(id: str) -> ApiToken:
    """Return the token with this id, or with the only id that starts so.

    Raises `TokenUnknown`, and `TokenAmbiguous` if several ids match.
    """
    # Lists show it so: `4f3c91d2…`.
    prefix = id.strip().removesuffix("…").replace("-", "").lower()
    if not re.fullmatch(rf"[0-9a-f]{{{MIN_ID_PREFIX},{MAX_ID_LENGTH}}}", prefix):
        raise TokenUnknown(
            f"'{id:.80}' is no id of a token: give at least its first "
            f"{MIN_ID_PREFIX} characters, as `token list` shows them"
        )
    ends = (uuid.UUID(prefix.ljust(MAX_ID_LENGTH, end)) for end in "0f")
    found = list(ApiToken.objects.filter(id__range=tuple(ends)).order_by("id")[:10])
    if not found:
        raise TokenUnknown(f"there is no token {id:.80}")
    if len(found) > 1:
        raise TokenAmbiguous(id, [f"{row.id} ({row.label})" for row in found])
    return found[0]


def labels_by_id(ids: Collection[uuid.UUID]) -> dict[str, str]:
    """Return the labels of tokens, by their ids as text."""
    found = ApiToken.objects.filter(pk__in=ids).values_list("pk", "label")
    return {str(token_id): label for token_id, label in found}


def revoke(id: str, *, by: Actor, now: datetime | None = None) -> tuple[ApiToken, bool]:
    """Revoke a token; return it and whether it was valid before.

    Takes an id or its unique prefix, and raises as `get_by_id_prefix` does.
    """
    row = get_by_id_prefix(id)
    ended = {"revoked_at": now or datetime.now(UTC), "version": F("version") + 1}
    with transaction.atomic():
        is_new = bool(
            ApiToken.objects.filter(pk=row.pk, revoked_at=None).update(**ended)
        )
        if is_new:
            _record("token.revoke", row, by)
    row.refresh_from_db()
    return row, is_new


def _record(action: str, row: ApiToken, by: Actor, **details: Any) -> None:
    known = {"label": row.label, "principal": row.principal, **details}
    audit_log.write(AuditEvent(action, by, str(row.id), known))


def _terms(row: ApiToken) -> dict[str, Any]:
    """Return the terms of a token, without those that are not set."""
    terms = {
        "limit_micro_usd": row.limit_micro_usd,
        "agents": row.agents,
        "expires_at": row.expires_at and row.expires_at.isoformat(),
    }
    given = {name: value for name, value in terms.items() if value is not None}
    return {"budget": row.budget, **given}


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


def _check_text(text: str, param: str, most: int) -> str:
    name = text.strip()
    if not name:
        raise NewTokenInvalid(f"the {param} is blank: say whose token it is", param)
    if len(name) > most:
        raise NewTokenInvalid(
            f"the {param} is {len(name)} characters long, at most {most} are taken",
            param,
        )
    if not name.isprintable():
        # A line break would forge a line of a list; zero-width characters are
        # invisible.
        raise NewTokenInvalid(
            f"the {param} has characters that cannot be seen: {name[:80]!r}", param
        )
    return name


def _check_limit(budget: Budget, limit: int | None) -> int | None:
    param = "limit_micro_usd"
    if budget not in ("unlimited", "total", "monthly"):
        raise NewTokenInvalid(
            f"'{budget:.40}' is no budget: there are unlimited, total and monthly",
            "budget",
        )
    if budget == "unlimited" and limit is not None:
        raise NewTokenInvalid(
            "a limit needs a budget it belongs to: total or monthly", param
        )
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
    allowed = sorted({_check_text(name, "agents", MAX_LABEL_LENGTH) for name in names})
    if not allowed:
        raise NewTokenInvalid(
            "no agent is named: a token that may call none is of no use", "agents"
        )
    return allowed


def _check_expiry(expires_at: datetime | None, now: datetime) -> datetime | None:
    if expires_at is not None and expires_at <= now:
        raise NewTokenInvalid(
            f"it would have expired on {expires_at:%Y-%m-%d at %H:%M} already",
            "expires_at",
        )
    return expires_at
