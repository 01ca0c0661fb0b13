"""Queries on the table of users' tokens; callers encrypt the tokens."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from django.db import transaction
from django.db.models import F, Q, QuerySet

from core.ids import UserId
from mcp_bridge.models import McpToken
from mcp_bridge.oauth.types import AuditHook, EncryptedTokens, StoredTokens, no_audit

Cursor = tuple[datetime, int]
"""The end of a page: a sign-in's `created_at` and `id`."""

LISTED_COLUMNS = (
    "id",
    "user_id",
    "resource",
    "scopes",
    "expires_at",
    "created_at",
    "updated_at",
)


def read_tokens(
    user_id: UserId, resources: Mapping[str, str]
) -> dict[str, StoredTokens]:
    """Return the user's sign-ins to these servers at their current URLs."""
    rows = McpToken.objects.filter(user_id=user_id, server__in=resources)
    return {
        row.server: _from_row(row)
        for row in rows
        if row.resource == resources[row.server]
    }


def store_tokens(
    user_id: UserId,
    server: str,
    resource: str,
    client_row: int | None,
    encrypted: EncryptedTokens,
    *,
    now: datetime,
    audit: AuditHook = no_audit,
) -> None:
    """Store a new sign-in in place of the user's previous one."""
    values = {
        "client_id": client_row,
        "key_id": encrypted.key_id,
        "access_token": encrypted.access_token,
        "refresh_token": encrypted.refresh_token,
        "scopes": encrypted.scopes or "",
        "expires_at": encrypted.expires_at,
        "refresh_lease_until": None,
        "created_at": now,
        "updated_at": now,
    }
    of_user = McpToken.objects.filter(user_id=user_id, server=server)
    with transaction.atomic():
        of_user.exclude(resource=resource).delete()
        row, is_new = McpToken.objects.get_or_create(
            user_id=user_id, server=server, resource=resource, defaults=values
        )
        if not is_new:
            existing = McpToken.objects.filter(pk=row.pk)
            existing.update(version=F("version") + 1, **values)
        audit()


def acquire_refresh_lease(
    stored: StoredTokens, *, now: datetime, until: datetime
) -> bool:
    """Claim a token for its refresh; of all who saw it as it is now, one may."""
    is_free = Q(refresh_lease_until=None) | Q(refresh_lease_until__lte=now)
    return bool(
        _unchanged_row(stored).filter(is_free).update(refresh_lease_until=until)
    )


def store_refreshed(
    stored: StoredTokens, encrypted: EncryptedTokens, *, now: datetime
) -> bool:
    """Store refreshed tokens; False if the sign-in was ended or replaced."""
    values: dict[str, Any] = {
        "key_id": encrypted.key_id,
        "access_token": encrypted.access_token,
        "refresh_token": encrypted.refresh_token,
        "expires_at": encrypted.expires_at,
    }
    if encrypted.scopes is not None:
        values["scopes"] = encrypted.scopes
    changed = _unchanged_row(stored).update(
        version=F("version") + 1, refresh_lease_until=None, updated_at=now, **values
    )
    return bool(changed)


def release_refresh_lease(stored: StoredTokens) -> None:
    """Release the lease after a failed refresh."""
    _unchanged_row(stored).update(refresh_lease_until=None)


def delete_tokens(stored: StoredTokens) -> None:
    """Delete a sign-in that is no longer valid."""
    _unchanged_row(stored).delete()


def disconnect(
    user_id: UserId, server: str, *, audit: AuditHook = no_audit
) -> list[StoredTokens]:
    """Delete the user's sign-in to a server, at any URL, and return it."""
    rows = McpToken.objects.filter(user_id=user_id, server=server)
    with transaction.atomic():
        stored = [_from_row(row) for row in rows]
        rows.filter(pk__in=[each.row for each in stored]).delete()
        if stored:
            audit()
    return stored


def without_secrets(user_id: UserId) -> QuerySet[McpToken]:
    """Return the user's sign-ins, without loading the tokens."""
    rows = McpToken.objects.filter(user_id=user_id)
    return rows.defer("access_token", "refresh_token")


def page_connections(
    server: str, *, now: datetime, after: Cursor | None = None, limit: int = 50
) -> tuple[list[dict[str, Any]], bool]:
    """Return users' sign-ins to a server, newest first, and whether there are more.

    `is_expired` marks a sign-in whose token has expired and cannot be refreshed.
    """
    rows = McpToken.objects.filter(server=server).order_by("-created_at", "-id")
    if after is not None:
        at, last_id = after
        older = Q(created_at__lt=at) | Q(id__lt=last_id)
        rows = rows.filter(older, created_at__lte=at)
    rows = rows.annotate(is_refreshable=Q(refresh_token__isnull=False))
    found = list(rows.values(*LISTED_COLUMNS, "is_refreshable")[: limit + 1])
    for row in found:
        expires_at = row["expires_at"]
        row["is_expired"] = (
            not row["is_refreshable"] and expires_at is not None and expires_at <= now
        )
    return found[:limit], len(found) > limit


def delete_expired(now: datetime) -> int:
    """Delete expired tokens that cannot be refreshed; return the number."""
    ended = McpToken.objects.filter(refresh_token=None, expires_at__lte=now)
    return ended.delete()[0]


def _unchanged_row(stored: StoredTokens) -> QuerySet[McpToken]:
    return McpToken.objects.filter(pk=stored.row, version=stored.version)


def _from_row(row: McpToken) -> StoredTokens:
    refresh_token = row.refresh_token
    encrypted = EncryptedTokens(
        row.key_id,
        bytes(row.access_token),
        None if refresh_token is None else bytes(refresh_token),
        row.scopes,
        row.expires_at,
    )
    return StoredTokens(
        row.pk,
        row.version,
        row.server,
        row.resource,
        row.client_id,
        encrypted,
        row.refresh_lease_until,
    )
