"""Queries on the table of client registrations."""

from datetime import datetime

from django.db import transaction

from mcp_bridge.models import McpClient
from mcp_bridge.oauth.types import AuthorizationServer, RegisteredClient, StoredClient


def find_client(server: str, resource: str, redirect_uri: str) -> StoredClient | None:
    """Return the registration for a server at this URL, if any."""
    rows = McpClient.objects.filter(
        server=server, resource=resource, redirect_uri=redirect_uri
    )
    row = rows.order_by("-discovered_at", "-pk").first()
    return None if row is None else _from_row(row)


def get_client(pk: int, resource: str) -> StoredClient | None:
    """Return a registration, unless the server's URL has changed."""
    row = McpClient.objects.filter(pk=pk, resource=resource).first()
    return None if row is None else _from_row(row)


def store_client(
    client: RegisteredClient,
    resource: str,
    key_id: str,
    ciphertext: bytes | None,
    *,
    replaces: str | None,
) -> StoredClient:
    """Store a registration, or return the one that another process stored first.

    `replaces` is the client id of the invalid registration to replace. Concurrent
    registrations must not send users away with different client ids.
    """
    values = {
        "client_id": client.client_id,
        "key_id": key_id,
        "client_secret": ciphertext,
        "secret_expires_at": client.secret_expires_at,
        "auth_method": client.auth_method,
        "metadata": client.provider.model_dump(),
        "discovered_at": client.discovered_at,
        "verified_at": client.verified_at,
    }
    with transaction.atomic():
        rows = McpClient.objects.select_for_update()
        row, is_new = rows.get_or_create(
            server=client.server,
            resource=resource,
            issuer=client.provider.issuer,
            redirect_uri=client.redirect_uri,
            defaults=values,
        )
        if not is_new and row.client_id == replaces:
            for name, value in values.items():
                setattr(row, name, value)
            row.save()
    return _from_row(row)


def mark_verified(pk: int, now: datetime) -> None:
    """Record that the provider knows a registration."""
    McpClient.objects.filter(pk=pk).update(verified_at=now)


def update_metadata(pk: int, provider: AuthorizationServer, now: datetime) -> None:
    """Store the provider's current metadata."""
    McpClient.objects.filter(pk=pk).update(
        metadata=provider.model_dump(), discovered_at=now
    )


def delete_client(pk: int, client_id: str) -> None:
    """Delete a registration that the provider no longer knows."""
    McpClient.objects.filter(pk=pk, client_id=client_id).delete()


def _from_row(row: McpClient) -> StoredClient:
    client = RegisteredClient(
        server=row.server,
        provider=AuthorizationServer.model_validate(row.metadata),
        client_id=row.client_id,
        client_secret=None,
        auth_method=row.auth_method,
        redirect_uri=row.redirect_uri,
        row=row.pk,
        discovered_at=row.discovered_at,
        verified_at=row.verified_at,
        secret_expires_at=row.secret_expires_at,
    )
    secret = row.client_secret
    return StoredClient(client, row.key_id, None if secret is None else bytes(secret))
