"""Read, refresh and end users' access tokens."""

import asyncio
import contextlib
import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import timedelta

from config.errors import SecretsInvalid
from config.sections import Config
from core.errors import CoulisseError
from core.ids import UserId
from mcp_bridge.config import MCP
from mcp_bridge.oauth import token_store
from mcp_bridge.oauth.authorization_server import token_endpoint
from mcp_bridge.oauth.authorization_server.http_requests import OAuthHttpClient
from mcp_bridge.oauth.client_registration import (
    ClientRegistry,
    Clock,
    find_server,
    now,
    redirect_uri,
    resource_url,
)
from mcp_bridge.oauth.crypto import secret_keys
from mcp_bridge.oauth.crypto.encryption import DecryptionFailed, TokenCipher
from mcp_bridge.oauth.errors import AuthServerRefused, SignInFailed
from mcp_bridge.oauth.state_tokens import new_link
from mcp_bridge.oauth.types import (
    AuditHook,
    CallDatabase,
    EncryptedTokens,
    NewTokens,
    StoredTokens,
    no_audit,
)

REFRESH_MARGIN = timedelta(seconds=60)
"""A token that expires sooner is refreshed before use."""
CLAIM_DURATION = timedelta(seconds=30)
"""The lease of a refreshing process; after this another may refresh."""
TIMEOUT_SECONDS = 2.0
"""How long a turn waits for a refresh while the old token is valid."""
POLL_SECONDS = 0.05
MAX_POLL_SECONDS = 1.0

TOKEN_REJECTED_ERRORS = {"invalid_client", "invalid_grant", "unauthorized_client"}
"""Refresh errors after which the user must connect again."""

logger = logging.getLogger(__name__)

Key = tuple[asyncio.AbstractEventLoop, str, str, UserId]
"""Tasks belong to one event loop; between loops the database lease decides."""


class TokenManager:
    """Manages users' sign-ins to MCP servers; one per process.

    `cross` and `cross_to_end` are `database.database_executor.run` and `run_to_end`.
    """

    def __init__(
        self,
        cross: CallDatabase,
        cross_to_end: CallDatabase,
        *,
        web: OAuthHttpClient | None = None,
        clock: Clock = now,
    ) -> None:
        self._cross = cross
        self._cross_to_end = cross_to_end
        self._web = web or OAuthHttpClient()
        self._clock = clock
        self._registrar = ClientRegistry(cross, cross_to_end, self._web, clock=clock)
        self._refreshing: dict[Key, asyncio.Task[str | None]] = {}

    async def tokens(
        self, config: Config, servers: Sequence[str], user_id: UserId
    ) -> Mapping[str, str | SignInFailed]:
        """Return the user's valid access token for each server they connected.

        One database call. A token about to expire is refreshed first; after a temporary
        failure the error takes its place. Servers that the user must connect are left
        out.
        """
        wanted = _resources_with_sign_in(config, servers)
        if not wanted or not _has_secrets():
            return {}
        found: dict[str, StoredTokens] = await self._cross(
            token_store.read_tokens, user_id, wanted
        )
        if not found:
            return {}
        usable = await asyncio.gather(
            *(self._usable_token(config, user_id, held) for held in found.values())
        )
        return {
            server: token
            for server, token in zip(found, usable, strict=True)
            if token is not None
        }

    async def renew(
        self, config: Config, server: str, user_id: UserId, refused: str
    ) -> str | None:
        """Return a new token in place of one that the server answered with 401.

        None if the user must connect again. Only one of several callers refreshes.
        Raises `SignInFailed` if the provider does not answer: the user stays connected
        and may try again.
        """
        held = await self._read(config, server, user_id)
        if held is None:
            return None
        token = decrypt_access_token(held, user_id, secret_keys.load_keys().cipher)
        if token != refused:
            return token
        try:
            return await self._refresh(config, user_id, held, is_refused=True)
        except SignInFailed as exc:
            logger.warning("could not refresh a user's token: %s", exc)
            raise _renewal_failed(server) from exc

    def link(self, config: Config, server: str, user_id: UserId) -> str:
        """Return a new URL at which only this user can connect the server.

        The user also returns to this URL: a cookie connects both visits.
        """
        token = new_link(
            secret_keys.load_keys().opaque_tokens, server, user_id, now=self._clock()
        )
        back = redirect_uri(config, server, find_server(config, server)[1])
        return f"{back.removesuffix('oauth/callback')}connect?token={token}"

    async def connection_states(
        self, config: Config, user_id: UserId
    ) -> dict[str, bool | None]:
        """Return whether the user is connected to each server.

        None for a server without sign-in.
        """
        servers = config.get(MCP)
        wanted = _resources_with_sign_in(config, [*servers])
        found: dict[str, StoredTokens] = {}
        if wanted:
            found = await self._cross(token_store.read_tokens, user_id, wanted)
        return {
            name: None
            if name not in wanted
            else name in found and self._is_readable(found[name], user_id)
            for name in servers
        }

    async def disconnect(
        self,
        config: Config,
        server: str,
        user_id: UserId,
        *,
        note: AuditHook = no_audit,
    ) -> bool:
        """End the user's sign-in, here and at the provider; return False without one.

        The local sign-in always ends; a failure at the provider is logged.
        """
        removed: list[StoredTokens] = await self._cross_to_end(
            token_store.disconnect, user_id, server, note=note
        )
        for held in removed:
            with contextlib.suppress(DecryptionFailed):
                await self._revoke(config, user_id, held)
        return bool(removed)

    async def close(self) -> None:
        """Wait for running refreshes: a provider may revoke the old token."""
        loop = asyncio.get_running_loop()
        while ours := [
            task for key, task in self._refreshing.items() if key[0] is loop
        ]:
            await asyncio.wait(ours)

    async def _read(
        self, config: Config, server: str, user_id: UserId
    ) -> StoredTokens | None:
        wanted = _resources_with_sign_in(config, [server])
        found: dict[str, StoredTokens] = await self._cross(
            token_store.read_tokens, user_id, wanted
        )
        return found.get(server)

    async def _usable_token(
        self, config: Config, user_id: UserId, held: StoredTokens
    ) -> str | SignInFailed | None:
        token = decrypt_access_token(held, user_id, secret_keys.load_keys().cipher)
        ends = held.boxes.expires_at
        if token is None or ends is None or ends - REFRESH_MARGIN > self._clock():
            return token
        lasts = ends > self._clock()
        try:
            async with asyncio.timeout(TIMEOUT_SECONDS if lasts else None):
                renewed = await self._refresh(config, user_id, held)
        except TimeoutError:
            return token  # The old token is still valid, and the refresh continues.
        except CoulisseError as exc:
            logger.warning("could not refresh a user's token: %s", exc)
            return token if ends > self._clock() else _renewal_failed(held.server)
        if renewed is None and held.boxes.refresh_token is None:
            return token if ends > self._clock() else None
        return renewed

    async def _refresh(
        self,
        config: Config,
        user_id: UserId,
        held: StoredTokens,
        *,
        is_refused: bool = False,
    ) -> str | None:
        """Return a new token; concurrent callers share one refresh.

        The refresh continues if the caller is cancelled: the provider may revoke the
        old refresh token as soon as it issues a new one.
        """
        key = asyncio.get_running_loop(), held.server, held.resource, user_id
        task = self._refreshing.get(key)
        if task is None:
            fetching = self._refresh_once(config, user_id, held, is_refused=is_refused)
            task = asyncio.create_task(fetching)
            self._refreshing[key] = task
            task.add_done_callback(lambda done: self._finish_refresh(key, done))
        return await asyncio.shield(task)

    def _finish_refresh(self, key: Key, task: asyncio.Task[str | None]) -> None:
        del self._refreshing[key]
        if not task.cancelled():
            task.exception()  # Waiting callers receive the exception.

    async def _refresh_once(
        self, config: Config, user_id: UserId, held: StoredTokens, *, is_refused: bool
    ) -> str | None:
        """Refresh, or wait for another process that does."""
        if held.boxes.refresh_token is None:
            if is_refused or self._has_ended(held):
                await self._cross_to_end(token_store.delete_tokens, held)
            return None
        claimed = await self._cross_to_end(
            token_store.claim_refresh,
            held,
            now=self._clock(),
            until=self._clock() + CLAIM_DURATION,
        )
        if not claimed:
            return await self._await_other(config, user_id, held)
        return await self._request_refresh(config, user_id, held)

    async def _request_refresh(
        self, config: Config, user_id: UserId, held: StoredTokens
    ) -> str | None:
        vault = secret_keys.load_keys().cipher
        app = await self._registrar.stored_client(config, held.server, held.client_row)
        try:
            old = _decrypt_refresh_token(held, user_id, vault)
            if app is None or old is None:
                await self._cross_to_end(token_store.delete_tokens, held)
                return None
            fresh = await token_endpoint.refresh_tokens(
                self._web, app, old, now=self._clock()
            )
        except AuthServerRefused as exc:
            if exc.error not in TOKEN_REJECTED_ERRORS:
                await self._cross_to_end(token_store.release_claim, held)
                raise
            logger.info("a user must connect again: %s", exc)
            await self._cross_to_end(token_store.delete_tokens, held)
            if app is not None and exc.error == "invalid_client":
                await self._registrar.forget(app)
            return None
        except CoulisseError:
            await self._cross_to_end(token_store.release_claim, held)
            raise
        boxes = encrypt_tokens(fresh, held.server, held.resource, user_id, vault)
        if fresh.refresh_token is None:
            boxes = replace(boxes, refresh_token=held.boxes.refresh_token)
        is_kept = await self._cross_to_end(
            token_store.store_refreshed, held, boxes, now=self._clock()
        )
        # Otherwise the user has disconnected or reconnected meanwhile.
        return fresh.access_token if is_kept else None

    async def _await_other(
        self, config: Config, user_id: UserId, held: StoredTokens
    ) -> str | None:
        """Wait for the process with the lease; return its result."""
        seconds = POLL_SECONDS
        while True:
            found = await self._read(config, held.server, user_id)
            if found is None:
                return None
            if found.version != held.version:
                return decrypt_access_token(
                    found, user_id, secret_keys.load_keys().cipher
                )
            until = found.refresh_lease_until
            if until is None or until <= self._clock():
                raise SignInFailed(
                    f"mcp server '{held.server}': another process could not refresh "
                    "the user's token",
                    provider=held.server,
                )
            await asyncio.sleep(seconds)
            seconds = min(2 * seconds, MAX_POLL_SECONDS)

    async def _revoke(
        self, config: Config, user_id: UserId, held: StoredTokens
    ) -> None:
        try:
            app = await self._registrar.stored_client(
                config, held.server, held.client_row
            )
            if app is None or app.provider.revocation_endpoint is None:
                return
            vault = secret_keys.load_keys().cipher
            for token in (
                _decrypt_refresh_token(held, user_id, vault),
                decrypt_access_token(held, user_id, vault),
            ):
                if token is not None:
                    await token_endpoint.revoke_token(self._web, app, token)
        except CoulisseError as exc:
            logger.warning("could not revoke a user's token at its provider: %s", exc)

    def _has_ended(self, held: StoredTokens) -> bool:
        ends = held.boxes.expires_at
        return ends is None or ends <= self._clock()

    def _is_readable(self, held: StoredTokens, user_id: UserId) -> bool:
        if decrypt_access_token(held, user_id, secret_keys.load_keys().cipher) is None:
            return False
        ends = held.boxes.expires_at
        lasts = ends is None or ends > self._clock()
        return lasts or held.boxes.refresh_token is not None


def _renewal_failed(server: str) -> SignInFailed:
    """Return the error for the model, without internal details."""
    return SignInFailed(
        f"mcp server '{server}': the user's token could not be renewed because the "
        "sign-in provider does not answer; try again in a minute",
        provider=server,
    )


def _has_secrets() -> bool:
    """Return whether keys exist; without them no user is signed in."""
    try:
        secret_keys.load_keys()
    except SecretsInvalid as exc:
        logger.error("sign-ins to MCP servers are unavailable: %s", exc)
        return False
    return True


def _resources_with_sign_in(config: Config, servers: Sequence[str]) -> dict[str, str]:
    """Return the resource URLs of the servers with sign-in, by name."""
    configured = config.get(MCP)
    return {
        name: resource_url(server)
        for name in servers
        if (server := configured.get(name)) is not None and server.sign_in is not None
    }


def encrypt_tokens(
    fresh: NewTokens, server: str, resource: str, user_id: UserId, vault: TokenCipher
) -> EncryptedTokens:
    """Return tokens encrypted for this user's row only."""
    place = _encryption_context(server, resource, user_id)
    refresh_token = fresh.refresh_token
    return EncryptedTokens(
        vault.key_id,
        vault.encrypt(fresh.access_token, *place, "access_token"),
        None
        if refresh_token is None
        else vault.encrypt(refresh_token, *place, "refresh_token"),
        fresh.scopes,
        fresh.expires_at,
    )


def decrypt_access_token(
    held: StoredTokens, user_id: UserId, vault: TokenCipher
) -> str | None:
    """Return the access token; None if the encryption key has changed."""
    return _decrypt(held, user_id, vault, "access_token", held.boxes.access_token)


def _decrypt_refresh_token(
    held: StoredTokens, user_id: UserId, vault: TokenCipher
) -> str | None:
    """Return the refresh token; None if missing or not decryptable."""
    box = held.boxes.refresh_token
    return None if box is None else _decrypt(held, user_id, vault, "refresh_token", box)


def _decrypt(
    held: StoredTokens, user_id: UserId, vault: TokenCipher, name: str, box: bytes
) -> str | None:
    try:
        return vault.decrypt(
            box, *_encryption_context(held.server, held.resource, user_id), name
        )
    except DecryptionFailed:
        logger.warning(
            "a user's sign-in to mcp server '%s' was encrypted with another key; the "
            "user must connect again",
            held.server,
        )
        return None


def _encryption_context(server: str, resource: str, user_id: UserId) -> tuple[str, ...]:
    return "mcp_token", server, resource, str(user_id)
