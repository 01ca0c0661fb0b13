"""This server's client registrations: discovery, registration, storage."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from weakref import WeakValueDictionary

from config.sections import Config
from core.text.sanitization import escape_and_truncate
from mcp_bridge.config import MCP, OAuthConfig, ToolServerConfig, public_base_url
from mcp_bridge.oauth import client_store
from mcp_bridge.oauth.authorization_server import (
    discovery,
    dynamic_registration,
    token_endpoint,
)
from mcp_bridge.oauth.authorization_server.http_requests import (
    OAuthHttpClient,
    check_secret_url,
)
from mcp_bridge.oauth.crypto import secret_keys
from mcp_bridge.oauth.crypto.encryption import DecryptionFailed, TokenCipher
from mcp_bridge.oauth.errors import ServerUnknown, SignInFailed, SignInUnsupported
from mcp_bridge.oauth.types import (
    AuthorizationServer,
    CallDatabase,
    RegisteredClient,
    StoredClient,
)

METADATA_AGE = timedelta(days=1)
"""The age after which a provider's metadata are read again."""
PROOF_AGE = timedelta(minutes=5)
"""The age after which a provider must confirm the registration."""
MARGIN = timedelta(minutes=15)
"""A client secret that expires sooner might expire during a sign-in."""

Clock = Callable[[], datetime]
LockKey = tuple[asyncio.AbstractEventLoop, str, str]


def now() -> datetime:
    """Return the current time."""
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


def redirect_uri(config: Config, name: str, oauth: OAuthConfig) -> str:
    """Return the redirect URI of a server's sign-ins."""
    return oauth.redirect_uri or f"{public_base_url(config)}/mcp/{name}/oauth/callback"


class ClientRegistry:
    """Provides this server's client at each provider."""

    def __init__(
        self,
        cross: CallDatabase,
        cross_to_end: CallDatabase,
        web: OAuthHttpClient,
        *,
        clock: Clock = now,
    ) -> None:
        self._cross = cross
        self._cross_to_end = cross_to_end
        self._web = web
        self._clock = clock
        self._locks: WeakValueDictionary[LockKey, asyncio.Lock] = WeakValueDictionary()

    async def client(self, config: Config, name: str) -> RegisteredClient:
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

    async def stored_client(
        self, config: Config, name: str, client_row: int | None
    ) -> RegisteredClient | None:
        """Return the client of a user's sign-in, if it still exists."""
        server, oauth = find_server(config, name)
        if client_row is None:
            return (
                _configured_client(config, name, oauth)
                if oauth.mode == "static"
                else None
            )
        found = await self._cross(
            client_store.get_client, client_row, resource_url(server)
        )
        return (
            None
            if found is None
            else decrypt_client(found, secret_keys.load_keys().cipher)
        )

    async def forget(self, app: RegisteredClient) -> None:
        """Delete a registration that the provider does not know."""
        if app.row is not None:
            await self._cross_to_end(client_store.delete_client, app.row, app.client_id)

    async def _register(
        self, config: Config, name: str, server: ToolServerConfig, oauth: OAuthConfig
    ) -> RegisteredClient:
        began_at = self._clock()
        resource, back = resource_url(server), redirect_uri(config, name, oauth)
        found = await self._cross(client_store.find_client, name, resource, back)
        known = await self._check_stored(found)
        if known is not None and not self._is_old(known.discovered_at, METADATA_AGE):
            return known
        provider = await self._discover(name, server)
        if known is not None and known.provider.issuer == provider.issuer:
            await self._cross_to_end(
                client_store.update_metadata, known.row, provider, began_at
            )
            return replace(known, provider=provider, discovered_at=began_at)
        app = await dynamic_registration.register_client(
            self._web, name, provider, back, now=began_at
        )
        old = None if found is None else found.app.client_id
        return await self._put(app, resource, instead_of=old)

    async def _discover(
        self, name: str, server: ToolServerConfig
    ) -> AuthorizationServer:
        method = "GET" if server.kind == "sse" else "POST"
        return await discovery.discover(
            self._web, name, server.url or "", method=method
        )

    async def _check_stored(
        self, found: StoredClient | None
    ) -> RegisteredClient | None:
        """Return a registration if it is readable and its provider knows it."""
        app = (
            None
            if found is None
            else decrypt_client(found, secret_keys.load_keys().cipher)
        )
        if app is None or app.row is None:
            return None
        ends = app.secret_expires_at
        if ends is not None and ends - MARGIN <= self._clock():
            return None
        if not self._is_old(app.verified_at, PROOF_AGE):
            return app
        if not await token_endpoint.is_client_known(self._web, app):
            await self.forget(app)
            return None
        await self._cross_to_end(client_store.mark_proven, app.row, self._clock())
        return app

    async def _put(
        self, app: RegisteredClient, resource: str, *, instead_of: str | None
    ) -> RegisteredClient:
        vault = secret_keys.load_keys().cipher
        secret = app.client_secret
        box = (
            None if secret is None else vault.encrypt(secret, *_encryption_context(app))
        )
        stored: StoredClient = await self._cross_to_end(
            client_store.store_client,
            app,
            resource,
            vault.key_id,
            box,
            instead_of=instead_of,
        )
        registered = decrypt_client(stored, vault)
        if registered is None:
            raise SignInFailed(
                f"mcp server '{app.server}': this process cannot decrypt the client "
                "that another one registered; set the same COULISSE_VAULT_KEY for all",
                provider=app.server,
            )
        return registered

    def _is_old(self, at: datetime | None, age: timedelta) -> bool:
        return at is None or at + age <= self._clock()


def _configured_client(
    config: Config, name: str, oauth: OAuthConfig
) -> RegisteredClient:
    """Return the client in the YAML; raises `AuthServerReplyInvalid`."""
    authorization_url, token_url = oauth.authorization_url or "", oauth.token_url or ""
    for place in (authorization_url, token_url):
        # The operator chose the URL, so this machine is allowed.
        check_secret_url(name, place, near=place)
    secret = oauth.client_secret
    return RegisteredClient(
        server=name,
        provider=AuthorizationServer(
            authorization_endpoint=authorization_url, token_endpoint=token_url
        ),
        client_id=oauth.client_id or "",
        client_secret=None if secret is None else secret.get_secret_value(),
        auth_method="client_secret_post",
        redirect_uri=redirect_uri(config, name, oauth),
    )


def decrypt_client(stored: StoredClient, vault: TokenCipher) -> RegisteredClient | None:
    """Return a registration with its secret; None if the key cannot decrypt it."""
    app = stored.app
    if stored.box is None:
        return app
    try:
        secret = vault.decrypt(stored.box, *_encryption_context(app))
    except DecryptionFailed:
        return None
    return replace(app, client_secret=secret)


def _encryption_context(app: RegisteredClient) -> tuple[str, ...]:
    return "mcp_client", app.server, app.provider.issuer, app.client_id, "client_secret"
