"""This server's client registrations: discovery, registration, storage."""

import asyncio
from collections.abc import Callable, Sequence
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

METADATA_MAX_AGE = timedelta(days=1)
"""The age after which a provider's metadata are read again."""
VERIFICATION_MAX_AGE = timedelta(minutes=5)
"""The age after which a provider must confirm the registration."""
SECRET_EXPIRY_MARGIN = timedelta(minutes=15)
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


def resources_with_sign_in(config: Config, servers: Sequence[str]) -> dict[str, str]:
    """Return the resource URLs of the servers with sign-in, by name."""
    configured = config.get(MCP)
    return {
        name: resource_url(server)
        for name in servers
        if (server := configured.get(name)) is not None and server.sign_in is not None
    }


def redirect_uri(config: Config, name: str, oauth: OAuthConfig) -> str:
    """Return the redirect URI of a server's sign-ins."""
    return oauth.redirect_uri or f"{public_base_url(config)}/mcp/{name}/oauth/callback"


class ClientRegistry:
    """Provides this server's client at each provider."""

    def __init__(
        self,
        call_database: CallDatabase,
        call_database_to_end: CallDatabase,
        http: OAuthHttpClient,
        *,
        clock: Clock = now,
    ) -> None:
        self._call_database = call_database
        self._call_database_to_end = call_database_to_end
        self._http = http
        self._clock = clock
        self._locks: WeakValueDictionary[LockKey, asyncio.Lock] = WeakValueDictionary()

    async def get_client(self, config: Config, name: str) -> RegisteredClient:
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
        found = await self._call_database(
            client_store.get_client, client_row, resource_url(server)
        )
        return (
            None
            if found is None
            else decrypt_client(found, secret_keys.load_keys().cipher)
        )

    async def forget(self, client: RegisteredClient) -> None:
        """Delete a registration that the provider does not know."""
        if client.row is not None:
            await self._call_database_to_end(
                client_store.delete_client, client.row, client.client_id
            )

    async def _register(
        self, config: Config, name: str, server: ToolServerConfig, oauth: OAuthConfig
    ) -> RegisteredClient:
        started_at = self._clock()
        resource, callback_url = resource_url(server), redirect_uri(config, name, oauth)
        found = await self._call_database(
            client_store.find_client, name, resource, callback_url
        )
        valid = await self._check_stored(found)
        if valid is not None and not self._is_older_than(
            valid.discovered_at, METADATA_MAX_AGE
        ):
            return valid
        provider = await self._discover(name, server)
        if valid is not None and valid.provider.issuer == provider.issuer:
            await self._call_database_to_end(
                client_store.update_metadata, valid.row, provider, started_at
            )
            return replace(valid, provider=provider, discovered_at=started_at)
        client = await dynamic_registration.register_client(
            self._http, name, provider, callback_url, now=started_at
        )
        old = None if found is None else found.client.client_id
        return await self._store(client, resource, replaces=old)

    async def _discover(
        self, name: str, server: ToolServerConfig
    ) -> AuthorizationServer:
        method = "GET" if server.kind == "sse" else "POST"
        return await discovery.discover(
            self._http, name, server.url or "", method=method
        )

    async def _check_stored(
        self, stored: StoredClient | None
    ) -> RegisteredClient | None:
        """Return a registration if it is readable and its provider knows it."""
        client = (
            None
            if stored is None
            else decrypt_client(stored, secret_keys.load_keys().cipher)
        )
        if client is None or client.row is None:
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
            await self.forget(client)
            return None
        await self._call_database_to_end(
            client_store.mark_verified, client.row, self._clock()
        )
        return client

    async def _store(
        self, client: RegisteredClient, resource: str, *, replaces: str | None
    ) -> RegisteredClient:
        cipher = secret_keys.load_keys().cipher
        secret = client.client_secret
        ciphertext = (
            None
            if secret is None
            else cipher.encrypt(secret, *_encryption_context(client))
        )
        stored: StoredClient = await self._call_database_to_end(
            client_store.store_client,
            client,
            resource,
            cipher.key_id,
            ciphertext,
            replaces=replaces,
        )
        registered = decrypt_client(stored, cipher)
        if registered is None:
            raise SignInFailed(
                f"mcp server '{client.server}': this process cannot decrypt the client "
                "that another one registered; set the same COULISSE_VAULT_KEY for all",
                provider=client.server,
            )
        return registered

    def _is_older_than(self, at: datetime | None, age: timedelta) -> bool:
        return at is None or at + age <= self._clock()


def _configured_client(
    config: Config, name: str, oauth: OAuthConfig
) -> RegisteredClient:
    """Return the client in the YAML; raises `AuthServerReplyInvalid`."""
    authorization_url, token_url = oauth.authorization_url or "", oauth.token_url or ""
    for url in (authorization_url, token_url):
        # The operator chose the URL, so this machine is allowed.
        check_secret_url(name, url, near=url)
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


def decrypt_client(
    stored: StoredClient, cipher: TokenCipher
) -> RegisteredClient | None:
    """Return a registration with its secret; None if the key cannot decrypt it."""
    client = stored.client
    if stored.ciphertext is None:
        return client
    try:
        secret = cipher.decrypt(stored.ciphertext, *_encryption_context(client))
    except DecryptionFailed:
        return None
    return replace(client, client_secret=secret)


def _encryption_context(client: RegisteredClient) -> tuple[str, ...]:
    return (
        "mcp_client",
        client.server,
        client.provider.issuer,
        client.client_id,
        "client_secret",
    )
