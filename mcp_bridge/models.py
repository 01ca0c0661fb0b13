"""Users' sign-ins to MCP servers, and what providers know this server by."""

from django.db import models


class McpToken(models.Model):
    """One user's sign-in to one server, at the address it had then.

    What points the server's name at another address leads no token there.
    """

    server = models.CharField(max_length=64)
    resource = models.CharField(max_length=2048)
    """The server's URL."""
    user_id = models.UUIDField()
    client_id = models.BigIntegerField(null=True)
    """The `McpClient` it was given to; NULL for the app that is in the YAML."""
    key_id = models.CharField(max_length=16)
    """Of the vault key the next two were encrypted with."""
    access_token = models.BinaryField()
    refresh_token = models.BinaryField(null=True)
    scopes = models.TextField(blank=True, default="")
    expires_at = models.DateTimeField(null=True)
    """Of the access token; NULL when the provider does not say."""
    refresh_lease_until = models.DateTimeField(null=True)
    """Claimed by the process that refreshes it, at most so long."""
    version = models.BigIntegerField(default=0)
    """Counts writes: nobody writes over what they have not seen."""
    created_at = models.DateTimeField()
    updated_at = models.DateTimeField()

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["user_id", "server", "resource"], name="mcp_token_user_server"
            )
        ]
        indexes = [
            # Those that end by themselves; the sweep looks for no others.
            models.Index(
                fields=["expires_at"],
                condition=models.Q(refresh_token=None),
                name="mcp_token_ends",
            ),
            # What the studio lists.
            models.Index(fields=["server", "-created_at", "-id"], name="mcp_token_of"),
        ]

    def __str__(self) -> str:
        return f"{self.user_id} at {self.server}"


class McpClient(models.Model):
    """This server as one provider knows it: a registration, shared by all users."""

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
    """Where the provider's endpoints are, and what it supports."""
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
    """A link that was used, until it would have expired anyway."""

    nonce = models.CharField(max_length=32, primary_key=True)
    expires_at = models.DateTimeField(db_index=True)

    def __str__(self) -> str:
        return self.nonce
