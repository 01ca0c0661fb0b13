"""Users' sign-ins to MCP servers, and client registrations with providers."""

from django.db import models


class McpToken(models.Model):
    """One user's sign-in to one server, at the address it had then.

    A changed address of the server's name never receives this token.
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
            # For the list in the studio.
            models.Index(
                fields=["server", "-created_at", "-id"], name="mcp_token_server"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.user_id} at {self.server}"


class McpClient(models.Model):
    """This server's client registration with a provider, shared by all users."""

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

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["server", "resource", "issuer", "redirect_uri"],
                name="mcp_client_registration",
            )
        ]

    def __str__(self) -> str:
        return f"{self.server} at {self.issuer}"


class McpUsedLink(models.Model):
    """A used link, stored until its expiry."""

    nonce = models.CharField(max_length=32, primary_key=True)
    expires_at = models.DateTimeField(db_index=True)

    def __str__(self) -> str:
        return self.nonce
