"""API tokens of requests and of the command line."""

from datetime import UTC, datetime
from typing import Any

from django.db import transaction

from access.audit import audit_log
from access.audit.audit_events import Actor, AuditEvent
from access.models import ApiToken
from access.tokens.token_cache import TOKEN_CACHE
from access.users.caller import VerifiedToken


def verify(digest: str) -> VerifiedToken | None:
    """Return the valid token with this digest, and cache it."""
    token = ApiToken.objects.verify(digest, datetime.now(UTC))
    if token is not None:
        TOKEN_CACHE.put(digest, token)
    return token


def create_token(
    label: str, principal: str, *, by: Actor, **terms: Any
) -> tuple[ApiToken, str]:
    """Issue a token and record it; see `ApiToken.objects.issue`."""
    with transaction.atomic():
        row, secret = ApiToken.objects.issue(label, principal, **terms)
        audit_log.write(AuditEvent("token.create", by, str(row.id), row.terms))
    return row, secret


def revoke(id: str, *, by: Actor, **at: Any) -> tuple[ApiToken, bool]:
    """Revoke a token; return it and whether it was valid before.

    Takes an id or its unique prefix, and raises as `by_id_prefix` does.
    """
    row = ApiToken.objects.by_id_prefix(id)
    with transaction.atomic():
        is_new = row.revoke(**at)
        if is_new:
            details = {"label": row.label, "principal": row.principal}
            audit_log.write(AuditEvent("token.revoke", by, str(row.id), details))
    return row, is_new
