"""Users' sign-ins to MCP servers, and client registrations with providers."""

import logging
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from django.db import models, transaction
from django.db.models import F, Q
from django.db.models.functions import Now

from core.ids import UserId
from mcp_bridge.oauth.crypto import secret_keys
from mcp_bridge.oauth.crypto.encryption import DecryptionFailed
from mcp_bridge.oauth.types import AuditHook, AuthorizationServer, NewTokens, no_audit

logger = logging.getLogger(__name__)


class McpTokenQuerySet(models.QuerySet["McpToken"]):
    """Users' sign-ins."""

    def by_server(
        self, user_id: UserId, resources: Mapping[str, str]
    ) -> dict[str, "McpToken"]:
        """Return the user's sign-ins to these servers at their current URLs."""
        rows = self.filter(user_id=user_id, server__in=resources)
        return {
            row.server: row for row in rows if row.resource == resources[row.server]
        }

    def without_secrets(self, user_id: UserId) -> "McpTokenQuerySet":
        """Return the user's sign-ins, without loading the tokens."""
        return self.filter(user_id=user_id).defer("access_token", "refresh_token")

    def expired(self, now: datetime) -> "McpTokenQuerySet":
        """Return the sign-ins that have expired and cannot be refreshed."""
        return self.filter(refresh_token=None, expires_at__lte=now)

    def connect(
        self,
        user_id: UserId,
        server: str,
        resource: str,
        client_id: int | None,
        tokens: NewTokens,
        *,
        now: datetime,
        audit: AuditHook = no_audit,
    ) -> None:
        """Store a new sign-in in place of the user's previous one."""
        row = McpToken(user_id=user_id, server=server, resource=resource)
        values = {
            "scopes": "",
            **row.encrypt(tokens),
            "client_id": client_id,
            "refresh_lease_until": None,
            "created_at": now,
            "updated_at": now,
        }
        of_user = self.filter(user_id=user_id, server=server)
        with transaction.atomic():
            of_user.exclude(resource=resource).delete()
            row, is_new = self.get_or_create(
                user_id=user_id, server=server, resource=resource, defaults=values
            )
            if not is_new:
                self.filter(pk=row.pk).update(version=F("version") + 1, **values)
            audit()

    def disconnect(
        self, user_id: UserId, server: str, *, audit: AuditHook = no_audit
    ) -> list["McpToken"]:
        """Delete the user's sign-in to a server, at any URL, and return it."""
        rows = self.filter(user_id=user_id, server=server)
        with transaction.atomic():
            removed = list(rows)
            rows.filter(pk__in=[row.pk for row in removed]).delete()
            if removed:
                audit()
        return removed

    def with_state(self) -> "McpTokenQuerySet":
        """Return the sign-ins with `is_refreshable` and `is_expired`, without tokens.

        `is_expired` marks a sign-in whose token has expired and cannot be refreshed.
        """
        is_past = Q(expires_at__isnull=False, expires_at__lte=Now())
        return self.defer("access_token", "refresh_token").annotate(
            is_refreshable=Q(refresh_token__isnull=False),
            is_expired=Q(refresh_token__isnull=True) & is_past,
        )


class McpToken(models.Model):
    """One user's sign-in to one server, at the address it had then.

    A changed address of the server's name never receives this token. Both tokens are
    encrypted, each bound to its user, server and column.
    """

    server = models.CharField(max_length=64)
    resource = models.CharField(max_length=2048)
    """The server's URL."""
    user_id = models.UUIDField()
    client_id = models.BigIntegerField(null=True)
    """The `McpClient` of the token; NULL for a client configured in the YAML."""
    key_id = models.CharField(max_length=16)
    """The id of the key that encrypts the next two fields."""
    access_token = models.BinaryField()
    refresh_token = models.BinaryField(null=True)
    scopes = models.TextField(blank=True, default="")
    expires_at = models.DateTimeField(null=True)
    """The expiry of the access token; NULL if the provider sends none."""
    refresh_lease_until = models.DateTimeField(null=True)
    """The end of the lease of the process that refreshes it."""
    version = models.BigIntegerField(default=0)
    """Counts writes, for optimistic locking."""
    created_at = models.DateTimeField()
    updated_at = models.DateTimeField()

    objects = McpTokenQuerySet.as_manager()

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["user_id", "server", "resource"], name="mcp_token_user_server"
            )
        ]
        indexes = [
            # Tokens that cannot be refreshed; the cleanup looks only for these.
            models.Index(
                fields=["expires_at"],
                condition=models.Q(refresh_token=None),
                name="mcp_token_expiry",
            ),
            # For the lists in the studio.
            models.Index(fields=["-created_at", "-id"], name="mcp_token_created"),
            models.Index(
                fields=["server", "-created_at", "-id"], name="mcp_token_server"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.user_id} at {self.server}"

    def has_expired(self, now: datetime) -> bool:
        """Return whether the access token has expired, or has no expiry."""
        return self.expires_at is None or self.expires_at <= now

    def acquire_refresh_lease(self, *, now: datetime, until: datetime) -> bool:
        """Claim the token for its refresh; of all who saw it as it is now, one may."""
        is_free = Q(refresh_lease_until=None) | Q(refresh_lease_until__lte=now)
        return bool(self._unchanged().filter(is_free).update(refresh_lease_until=until))

    def release_refresh_lease(self) -> None:
        """Release the lease after a failed refresh."""
        self._unchanged().update(refresh_lease_until=None)

    def store_refreshed(self, tokens: NewTokens, *, now: datetime) -> bool:
        """Store refreshed tokens; False if the sign-in was ended or replaced."""
        values = self.encrypt(tokens)
        if tokens.refresh_token is None:
            del values["refresh_token"]  # The old one stays valid.
        changed = self._unchanged().update(
            version=F("version") + 1, refresh_lease_until=None, updated_at=now, **values
        )
        return bool(changed)

    def delete_unchanged(self) -> None:
        """Delete the sign-in, unless it was replaced meanwhile."""
        self._unchanged().delete()

    def encrypt(self, tokens: NewTokens) -> dict[str, Any]:
        """Return the columns of new tokens; without `scopes` if none were sent."""
        cipher = secret_keys.load_keys().cipher
        values: dict[str, Any] = {
            "key_id": cipher.key_id,
            "expires_at": tokens.expires_at,
        }
        if tokens.scopes is not None:
            values["scopes"] = tokens.scopes
        for name in ("access_token", "refresh_token"):
            text = getattr(tokens, name)
            values[name] = (
                None if text is None else cipher.encrypt(text, *self._context(name))
            )
        return values

    def decrypt(self, name: str) -> str | None:
        """Return `access_token` or `refresh_token`.

        None if it is missing, or if the encryption key has changed.
        """
        ciphertext = getattr(self, name)
        if ciphertext is None:
            return None
        cipher = secret_keys.load_keys().cipher
        try:
            return cipher.decrypt(bytes(ciphertext), *self._context(name))
        except DecryptionFailed:
            logger.warning(
                "a user's sign-in to mcp server '%s' was encrypted with another key; "
                "the user must connect again",
                self.server,
            )
            return None

    def _context(self, name: str) -> tuple[str, ...]:
        return "mcp_token", self.server, self.resource, str(self.user_id), name

    def _unchanged(self) -> McpTokenQuerySet:
        return McpToken.objects.filter(pk=self.pk, version=self.version)


class McpClientQuerySet(models.QuerySet["McpClient"]):
    """Client registrations."""

    def find(self, server: str, resource: str, redirect_uri: str) -> "McpClient | None":
        """Return the newest registration for a server at this URL, if any."""
        rows = self.filter(server=server, resource=resource, redirect_uri=redirect_uri)
        return rows.order_by("-discovered_at", "-pk").first()

    def find_by_id(self, pk: int, resource: str) -> "McpClient | None":
        """Return a registration, unless the server's URL has changed."""
        return self.filter(pk=pk, resource=resource).first()


class McpClient(models.Model):
    """This server's client registration with a provider, shared by all users.

    An instance without a row is the client of a server whose sign-in is configured in
    the YAML.
    """

    server = models.CharField(max_length=64)
    resource = models.CharField(max_length=1024)
    issuer = models.CharField(max_length=512)
    redirect_uri = models.CharField(max_length=512)
    client_id = models.TextField()
    key_id = models.CharField(max_length=16)
    client_secret = models.BinaryField(null=True)
    secret_expires_at = models.DateTimeField(null=True)
    auth_method = models.CharField(max_length=32)
    metadata = models.JSONField()
    """The provider's endpoints and features."""
    discovered_at = models.DateTimeField()
    """When `metadata` was read."""
    verified_at = models.DateTimeField()
    """When the provider last knew this registration."""

    secret: str | None = None
    """The secret in plain text; only in memory."""

    objects = McpClientQuerySet.as_manager()

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["server", "resource", "issuer", "redirect_uri"],
                name="mcp_client_registration",
            )
        ]

    def __str__(self) -> str:
        return f"{self.server} at {self.issuer}"

    @property
    def provider(self) -> AuthorizationServer:
        return AuthorizationServer.model_validate(self.metadata)

    def register(self, *, replaces: str | None) -> "McpClient":
        """Store this registration, or return the one another process stored first.

        `replaces` is the client id of the invalid registration to replace. Concurrent
        registrations must not send users away with different client ids.
        """
        self._encrypt_secret()
        with transaction.atomic():
            rows = McpClient.objects.select_for_update()
            names = ("server", "resource", "issuer", "redirect_uri")
            key = {name: getattr(self, name) for name in names}
            values = {
                field.name: getattr(self, field.name)
                for field in self._meta.concrete_fields
                if not field.primary_key and field.name not in key
            }
            row, is_new = rows.get_or_create(**key, defaults=values)
            if not is_new and row.client_id == replaces:
                for name, value in values.items():
                    setattr(row, name, value)
                row.save()
        return row

    def mark_verified(self, now: datetime) -> None:
        """Record that the provider knows this registration."""
        McpClient.objects.filter(pk=self.pk).update(verified_at=now)

    def update_metadata(self, provider: AuthorizationServer, now: datetime) -> None:
        self.metadata, self.discovered_at = provider.model_dump(), now
        McpClient.objects.filter(pk=self.pk).update(
            metadata=self.metadata, discovered_at=now
        )

    def forget(self) -> None:
        """Delete a registration that the provider does not know."""
        if self.pk is not None:
            McpClient.objects.filter(pk=self.pk, client_id=self.client_id).delete()

    def decrypt_secret(self) -> bool:
        """Set `secret`; return False if it was encrypted with another key."""
        if self.client_secret is not None:
            cipher = secret_keys.load_keys().cipher
            try:
                self.secret = cipher.decrypt(
                    bytes(self.client_secret), *self._context()
                )
            except DecryptionFailed:
                return False
        return True

    def _encrypt_secret(self) -> None:
        cipher = secret_keys.load_keys().cipher
        self.key_id = cipher.key_id
        if self.secret is not None:
            self.client_secret = cipher.encrypt(self.secret, *self._context())

    def _context(self) -> tuple[str, ...]:
        return "mcp_client", self.server, self.issuer, self.client_id, "client_secret"


class McpUsedLinkQuerySet(models.QuerySet["McpUsedLink"]):
    def mark_used(self, nonce: str, expires_at: datetime) -> bool:
        """Mark a link as used; only one of concurrent callers succeeds."""
        _, is_first = self.get_or_create(
            nonce=nonce, defaults={"expires_at": expires_at}
        )
        return is_first

    def is_used(self, nonce: str) -> bool:
        return self.filter(nonce=nonce).exists()

    def expired(self, now: datetime) -> "McpUsedLinkQuerySet":
        """Return the links that cannot be used again anyway."""
        return self.filter(expires_at__lte=now)


class McpUsedLink(models.Model):
    """A used link, stored until its expiry."""

    nonce = models.CharField(max_length=32, primary_key=True)
    expires_at = models.DateTimeField(db_index=True)

    objects = McpUsedLinkQuerySet.as_manager()

    def __str__(self) -> str:
        return self.nonce
