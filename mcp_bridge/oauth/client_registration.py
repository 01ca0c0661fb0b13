"""This server's standing with each provider: found out, registered, remembered."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from weakref import WeakValueDictionary

from config.sections import Config
from core.text.sanitization import shortened
from mcp_bridge.config import MCP, OAuth, ServerConfig, public_base_url
from mcp_bridge.oauth import client_store
from mcp_bridge.oauth.authorization_server import (
    discovery,
    dynamic_registration,
    token_endpoint,
)
from mcp_bridge.oauth.authorization_server.http_requests import Web, check_place
from mcp_bridge.oauth.crypto import secret_keys
from mcp_bridge.oauth.crypto.encryption import Unreadable, Vault
from mcp_bridge.oauth.errors import NoSignIn, ServerUnknown, SignInFailed
from mcp_bridge.oauth.types import App, Cross, Provider, StoredApp

METADATA_AGE = timedelta(days=1)
"""After this a provider's endpoints are looked up again."""
PROOF_AGE = timedelta(minutes=5)
"""After this a provider is asked whether it still knows us."""
MARGIN = timedelta(minutes=15)
"""A secret that ends sooner might end while a user signs in."""

Clock = Callable[[], datetime]
LockKey = tuple[asyncio.AbstractEventLoop, str, str]


def now() -> datetime:
    """Return this instant."""
    return datetime.now(UTC)


def find(config: Config, name: str) -> tuple[ServerConfig, OAuth]:
    """Return a server and its sign-in; raises `ServerUnknown` and `NoSignIn`."""
    server = config.get(MCP).get(name)
    if server is None:
        raise ServerUnknown(f"there is no MCP server '{shortened(name)}'")
    if server.sign_in is None:
        raise NoSignIn(f"MCP server '{shortened(name)}' has no sign-in: it needs none")
    return server, server.sign_in


def resource_of(server: ServerConfig) -> str:
    """Return the place a token for this server is for."""
    if server.url is not None:
        return server.url
    # A command with a sign-in has one that is not discovered.
    return f"stdio:{server.sign_in.token_url if server.sign_in else ''}"


def redirect_uri(config: Config, name: str, oauth: OAuth) -> str:
    """Return where users of a server come back to."""
    return oauth.redirect_uri or f"{public_base_url(config)}/mcp/{name}/oauth/callback"


class Registrar:
    """Knows this server's app at each provider."""

    def __init__(
        self, cross: Cross, cross_to_end: Cross, web: Web, *, clock: Clock = now
    ) -> None:
        self._cross = cross
        self._cross_to_end = cross_to_end
        self._web = web
        self._clock = clock
        self._locks: WeakValueDictionary[LockKey, asyncio.Lock] = WeakValueDictionary()

    async def client(self, config: Config, name: str) -> App:
        """Return our app at a server's provider, registered now if need be.

        Raises `ServerUnknown`, `NoSignIn` and `SignInFailed`.
        """
        server, oauth = find(config, name)
        if oauth.mode == "static":
            return _static_app(config, name, oauth)
        # One discovery at a time: of many users' first links one registers us.
        loop = asyncio.get_running_loop()
        key = loop, name, redirect_uri(config, name, oauth)
        lock = self._locks.setdefault(key, asyncio.Lock())
        async with lock:
            return await self._register(config, name, server, oauth)

    async def stored_client(
        self, config: Config, name: str, client_row: int | None
    ) -> App | None:
        """Return the app a user's sign-in was made with, if there still is one."""
        server, oauth = find(config, name)
        if client_row is None:
            return _static_app(config, name, oauth) if oauth.mode == "static" else None
        found = await self._cross(client_store.get, client_row, resource_of(server))
        return None if found is None else opened(found, secret_keys.load().cipher)

    async def forget(self, app: App) -> None:
        """Have the next sign-in register us anew: the provider does not know us."""
        if app.row is not None:
            await self._cross_to_end(client_store.forget, app.row, app.client_id)

    async def _register(
        self, config: Config, name: str, server: ServerConfig, oauth: OAuth
    ) -> App:
        began_at = self._clock()
        resource, back = resource_of(server), redirect_uri(config, name, oauth)
        found = await self._cross(client_store.find, name, resource, back)
        known = await self._check_stored(found)
        if known is not None and not self._is_old(known.discovered_at, METADATA_AGE):
            return known
        provider = await self._discover(name, server)
        if known is not None and known.provider.issuer == provider.issuer:
            await self._cross_to_end(
                client_store.rediscover, known.row, provider, began_at
            )
            return replace(known, provider=provider, discovered_at=began_at)
        app = await dynamic_registration.register(
            self._web, name, provider, back, now=began_at
        )
        old = None if found is None else found.app.client_id
        return await self._put(app, resource, instead_of=old)

    async def _discover(self, name: str, server: ServerConfig) -> Provider:
        method = "GET" if server.kind == "sse" else "POST"
        return await discovery.discover(
            self._web, name, server.url or "", method=method
        )

    async def _check_stored(self, found: StoredApp | None) -> App | None:
        """Return a registration if it can be read and its provider knows it."""
        app = None if found is None else opened(found, secret_keys.load().cipher)
        if app is None or app.row is None:
            return None
        ends = app.secret_expires_at
        if ends is not None and ends - MARGIN <= self._clock():
            return None
        if not self._is_old(app.proven_at, PROOF_AGE):
            return app
        if not await token_endpoint.is_known(self._web, app):
            await self.forget(app)
            return None
        await self._cross_to_end(client_store.prove, app.row, self._clock())
        return app

    async def _put(self, app: App, resource: str, *, instead_of: str | None) -> App:
        vault = secret_keys.load().cipher
        secret = app.client_secret
        box = None if secret is None else vault.encrypt(secret, *_place(app))
        stored: StoredApp = await self._cross_to_end(
            client_store.put, app, resource, vault.key_id, box, instead_of=instead_of
        )
        registered = opened(stored, vault)
        if registered is None:
            raise SignInFailed(
                f"mcp server '{app.server}': another process stored a registration "
                "this one cannot read; give all the same COULISSE_VAULT_KEY",
                provider=app.server,
            )
        return registered

    def _is_old(self, at: datetime | None, age: timedelta) -> bool:
        return at is None or at + age <= self._clock()


def _static_app(config: Config, name: str, oauth: OAuth) -> App:
    """Return the app the YAML describes; raises `ProviderBroken`."""
    authorization_url, token_url = oauth.authorization_url or "", oauth.token_url or ""
    for place in (authorization_url, token_url):
        # The operator says where: on this machine is as good as anywhere.
        check_place(name, place, near=place)
    secret = oauth.client_secret
    return App(
        server=name,
        provider=Provider(
            authorization_endpoint=authorization_url, token_endpoint=token_url
        ),
        client_id=oauth.client_id or "",
        client_secret=None if secret is None else secret.get_secret_value(),
        auth_method="client_secret_post",
        redirect_uri=redirect_uri(config, name, oauth),
    )


def opened(stored: StoredApp, vault: Vault) -> App | None:
    """Return a registration with its secret; None if the vault cannot read it."""
    app = stored.app
    if stored.box is None:
        return app
    try:
        secret = vault.decrypt(stored.box, *_place(app))
    except Unreadable:
        return None
    return replace(app, client_secret=secret)


def _place(app: App) -> tuple[str, ...]:
    return "mcp_client", app.server, app.provider.issuer, app.client_id, "client_secret"
