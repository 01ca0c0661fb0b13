"""Queries on the table of users' tokens; callers encrypt the tokens."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from django.db import transaction
from django.db.models import F, Q, QuerySet

from core.ids import UserId
from mcp_bridge.models import McpToken
from mcp_bridge.oauth.types import AuditHook, EncryptedTokens, StoredTokens, no_audit


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
    boxes: EncryptedTokens,
    *,
    now: datetime,
    note: AuditHook = no_audit,
) -> None:
    """Store a new sign-in in place of the user's previous one."""
    values = {
        "client_id": client_row,
        "key_id": boxes.key_id,
        "access_token": boxes.access_token,
        "refresh_token": boxes.refresh_token,
        "scopes": boxes.scopes or "",
        "expires_at": boxes.expires_at,
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
            known = McpToken.objects.filter(pk=row.pk)
            known.update(version=F("version") + 1, **values)
        note()


def claim_refresh(held: StoredTokens, *, now: datetime, until: datetime) -> bool:
    """Claim a token for its refresh; of all who saw it as it is now, one may."""
    is_free = Q(refresh_lease_until=None) | Q(refresh_lease_until__lte=now)
    return bool(_unchanged_row(held).filter(is_free).update(refresh_lease_until=until))


def store_refreshed(
    held: StoredTokens, boxes: EncryptedTokens, *, now: datetime
) -> bool:
    """Store refreshed tokens; False if the sign-in was ended or replaced."""
    values: dict[str, Any] = {
        "key_id": boxes.key_id,
        "access_token": boxes.access_token,
        "refresh_token": boxes.refresh_token,
        "expires_at": boxes.expires_at,
    }
    if boxes.scopes is not None:
        values["scopes"] = boxes.scopes
    changed = _unchanged_row(held).update(
        version=F("version") + 1, refresh_lease_until=None, updated_at=now, **values
    )
    return bool(changed)


def release_claim(held: StoredTokens) -> None:
    """Release the lease after a failed refresh."""
    _unchanged_row(held).update(refresh_lease_until=None)


def delete_tokens(held: StoredTokens) -> None:
    """Delete a sign-in that is no longer valid."""
    _unchanged_row(held).delete()


def disconnect(
    user_id: UserId, server: str, *, note: AuditHook = no_audit
) -> list[StoredTokens]:
    """Delete the user's sign-in to a server, at any URL, and return it."""
    rows = McpToken.objects.filter(user_id=user_id, server=server)
    with transaction.atomic():
        held = [_from_row(row) for row in rows]
        rows.filter(pk__in=[each.row for each in held]).delete()
        if held:
            note()
    return held


def without_secrets(user_id: UserId) -> QuerySet[McpToken]:
    """Return the user's sign-ins, without loading the tokens."""
    rows = McpToken.objects.filter(user_id=user_id)
    return rows.defer("access_token", "refresh_token")


def delete_expired(now: datetime) -> int:
    """Delete expired tokens that cannot be refreshed; return the number."""
    ended = McpToken.objects.filter(refresh_token=None, expires_at__lte=now)
    return ended.delete()[0]


def _unchanged_row(held: StoredTokens) -> QuerySet[McpToken]:
    return McpToken.objects.filter(pk=held.row, version=held.version)


def _from_row(row: McpToken) -> StoredTokens:
    refresh_token = row.refresh_token
    boxes = EncryptedTokens(
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
        boxes,
        row.refresh_lease_until,
    )
