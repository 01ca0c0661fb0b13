"""This server's client registrations: discovery, registration, storage."""

import asyncio
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from weakref import WeakValueDictionary

from config.sections import Config
from core.text.sanitization import escape_and_truncate
from database import database_executor
from mcp_bridge.config import MCP, OAuthConfig, ToolServerConfig, public_base_url
from mcp_bridge.oauth.authorization_server import (
    discovery,
    dynamic_registration,
    token_endpoint,
)
from mcp_bridge.oauth.authorization_server.http_requests import (
    OAuthHttpClient,
    check_secret_url,
)
from mcp_bridge.oauth.errors import ServerUnknown, SignInFailed, SignInUnsupported
from mcp_bridge.oauth.tables import McpClient
from mcp_bridge.oauth.types import AuthorizationServer

METADATA_MAX_AGE = timedelta(days=1)
"""The age after which a provider's metadata are read again."""
VERIFICATION_MAX_AGE = timedelta(minutes=5)
"""The age after which a provider must confirm the registration."""
SECRET_EXPIRY_MARGIN = timedelta(minutes=15)
"""A client secret that expires sooner might expire during a sign-in."""

Clock = Callable[[], datetime]
LockKey = tuple[asyncio.AbstractEventLoop, str, str]


def now() -> datetime:
    return datetime.now(UTC)


def find_server(config: Config, name: str) -> tuple[ToolServerConfig, OAuthConfig]:
    """Return a server and its sign-in.

    Raises `ServerUnknown` and `SignInUnsupported`.
    """
    server = config.get(MCP).get(name)
    if server is None:
        raise ServerUnknown(f"there is no MCP server '{escape_and_truncate(name)}'")
    if server.sign_in is None:
        raise SignInUnsupported(
            f"MCP server '{escape_and_truncate(name)}' has no sign-in"
        )
    return server, server.sign_in


def resource_url(server: ToolServerConfig) -> str:
    """Return the resource URL of this server's tokens."""
    if server.url is not None:
        return server.url
    # A command's sign-in is configured, not discovered.
    return f"stdio:{server.sign_in.token_url if server.sign_in else ''}"


def resources_with_sign_in(config: Config, servers: Sequence[str]) -> dict[str, str]:
    """Return the resource URLs of the servers with sign-in, by name."""
    configured = config.get(MCP)
    return {
        name: resource_url(server)
        for name in servers
        if (server := configured.get(name)) is not None and server.sign_in is not None
    }


def redirect_uri(config: Config, name: str, oauth: OAuthConfig) -> str:
    return oauth.redirect_uri or f"{public_base_url(config)}/mcp/{name}/oauth/callback"


class ClientRegistry:
    """Provides this server's client at each provider."""

    def __init__(self, http: OAuthHttpClient, *, clock: Clock = now) -> None:
        self._http = http
        self._clock = clock
        self._locks: WeakValueDictionary[LockKey, asyncio.Lock] = WeakValueDictionary()

    async def get_client(self, config: Config, name: str) -> McpClient:
        """Return our client at a server's provider; register it if needed.

        Raises `ServerUnknown`, `SignInUnsupported` and `SignInFailed`.
        """
        server, oauth = find_server(config, name)
        if oauth.mode == "static":
            return _configured_client(config, name, oauth)
        # One discovery at a time, so that concurrent first links register one client.
        loop = asyncio.get_running_loop()
        key = loop, name, redirect_uri(config, name, oauth)
        lock = self._locks.setdefault(key, asyncio.Lock())
        async with lock:
            return await self._register(config, name, server, oauth)

    async def get_stored_client(
        self, config: Config, name: str, client_id: int | None
    ) -> McpClient | None:
        """Return the client of a user's sign-in, if it still exists."""
        server, oauth = find_server(config, name)
        if client_id is None:
            is_static = oauth.mode == "static"
            return _configured_client(config, name, oauth) if is_static else None
        found = await database_executor.run(
            McpClient.objects.find_by_id, client_id, resource_url(server)
        )
        return found if found is not None and found.decrypt_secret() else None

    async def _register(
        self, config: Config, name: str, server: ToolServerConfig, oauth: OAuthConfig
    ) -> McpClient:
        started_at = self._clock()
        resource, callback_url = resource_url(server), redirect_uri(config, name, oauth)
        found = await database_executor.run(
            McpClient.objects.find, name, resource, callback_url
        )
        valid = await self._check_stored(found)
        if valid is not None and not self._is_older_than(
            valid.discovered_at, METADATA_MAX_AGE
        ):
            return valid
        provider = await self._discover(name, server)
        if valid is not None and valid.provider.issuer == provider.issuer:
            await database_executor.run_to_end(
                valid.update_metadata, provider, started_at
            )
            return valid
        client = await dynamic_registration.register_client(
            self._http,
            name,
            provider,
            resource=resource,
            redirect_uri=callback_url,
            now=started_at,
        )
        old = None if found is None else found.client_id
        stored = await database_executor.run_to_end(client.register, replaces=old)
        if not stored.decrypt_secret():
            raise SignInFailed(
                name,
                "this process cannot decrypt the client that another one registered; "
                "set the same COULISSE_VAULT_KEY for all",
            )
        return stored

    async def _discover(
        self, name: str, server: ToolServerConfig
    ) -> AuthorizationServer:
        method = "GET" if server.kind == "sse" else "POST"
        return await discovery.discover(
            self._http, name, server.url or "", method=method
        )

    async def _check_stored(self, client: McpClient | None) -> McpClient | None:
        """Return a registration if it is readable and its provider knows it."""
        if client is None or not client.decrypt_secret():
            return None
        expires_at = client.secret_expires_at
        if (
            expires_at is not None
            and expires_at - SECRET_EXPIRY_MARGIN <= self._clock()
        ):
            return None
        if not self._is_older_than(client.verified_at, VERIFICATION_MAX_AGE):
            return client
        if not await token_endpoint.is_client_known(self._http, client):
            await database_executor.run_to_end(client.forget)
            return None
        await database_executor.run_to_end(client.mark_verified, self._clock())
        return client

    def _is_older_than(self, at: datetime, age: timedelta) -> bool:
        return at + age <= self._clock()


def _configured_client(config: Config, name: str, oauth: OAuthConfig) -> McpClient:
    """Return the client in the YAML; raises `AuthServerReplyInvalid`."""
    authorization_url, token_url = oauth.authorization_url or "", oauth.token_url or ""
    for url in (authorization_url, token_url):
        # The operator chose the URL, so this machine is allowed.
        check_secret_url(name, url, near=url)
    secret = oauth.client_secret
    provider = AuthorizationServer(
        authorization_endpoint=authorization_url, token_endpoint=token_url
    )
    client = McpClient(
        server=name,
        metadata=provider.model_dump(),
        client_id=oauth.client_id or "",
        auth_method="client_secret_post",
        redirect_uri=redirect_uri(config, name, oauth),
    )
    client.secret = None if secret is None else secret.get_secret_value()
    return client
