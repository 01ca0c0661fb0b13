"""Refresh users' tokens: once per token, across tasks and processes."""

import asyncio
import logging
from dataclasses import replace
from datetime import datetime, timedelta

from config.sections import Config
from core.errors import CoulisseError
from core.ids import UserId
from mcp_bridge.oauth import token_store
from mcp_bridge.oauth.authorization_server import token_endpoint
from mcp_bridge.oauth.authorization_server.http_requests import OAuthHttpClient
from mcp_bridge.oauth.client_registration import (
    ClientRegistry,
    Clock,
    resources_with_sign_in,
)
from mcp_bridge.oauth.crypto import secret_keys
from mcp_bridge.oauth.errors import AuthServerRefused, SignInFailed
from mcp_bridge.oauth.token_encryption import (
    decrypt_access_token,
    decrypt_refresh_token,
    encrypt_tokens,
)
from mcp_bridge.oauth.types import CallDatabase, StoredTokens

logger = logging.getLogger(__name__)

LEASE_DURATION = timedelta(seconds=30)
"""The lease of a refreshing process; after this another may refresh."""
POLL_SECONDS = 0.05
MAX_POLL_SECONDS = 1.0

TOKEN_REJECTED_ERRORS = {"invalid_client", "invalid_grant", "unauthorized_client"}
"""Refresh errors after which the user must connect again."""

Key = tuple[asyncio.AbstractEventLoop, str, str, UserId]
"""Tasks belong to one event loop; between loops the database lease decides."""


def has_expired(stored: StoredTokens, now: datetime) -> bool:
    """Return whether the access token has expired, or has no expiry."""
    expires_at = stored.encrypted.expires_at
    return expires_at is None or expires_at <= now


class TokenRefresher:
    """Refreshes tokens; concurrent callers share one refresh."""

    def __init__(
        self,
        call_database: CallDatabase,
        call_database_to_end: CallDatabase,
        clients: ClientRegistry,
        *,
        http: OAuthHttpClient,
        clock: Clock,
    ) -> None:
        self._call_database = call_database
        self._call_database_to_end = call_database_to_end
        self._clients = clients
        self._http = http
        self._clock = clock
        self._running: dict[Key, asyncio.Task[str | None]] = {}

    async def refresh(
        self,
        config: Config,
        user_id: UserId,
        stored: StoredTokens,
        *,
        is_refused: bool = False,
    ) -> str | None:
        """Return a new token; concurrent callers share one refresh.

        The refresh continues if the caller is cancelled: the provider may revoke the
        old refresh token as soon as it issues a new one.
        """
        key = asyncio.get_running_loop(), stored.server, stored.resource, user_id
        task = self._running.get(key)
        if task is None:
            refreshing = self._refresh_once(
                config, user_id, stored, is_refused=is_refused
            )
            task = asyncio.create_task(refreshing)
            self._running[key] = task
            task.add_done_callback(lambda done: self._finish_refresh(key, done))
        return await asyncio.shield(task)

    async def close(self) -> None:
        """Wait for running refreshes: a provider may revoke the old token."""
        loop = asyncio.get_running_loop()
        while own := [task for key, task in self._running.items() if key[0] is loop]:
            await asyncio.wait(own)

    async def read(
        self, config: Config, server: str, user_id: UserId
    ) -> StoredTokens | None:
        """Return the user's stored sign-in to a server, if any."""
        resources = resources_with_sign_in(config, [server])
        found: dict[str, StoredTokens] = await self._call_database(
            token_store.read_tokens, user_id, resources
        )
        return found.get(server)

    def _finish_refresh(self, key: Key, task: asyncio.Task[str | None]) -> None:
        del self._running[key]
        if not task.cancelled():
            task.exception()  # Waiting callers receive the exception.

    async def _refresh_once(
        self, config: Config, user_id: UserId, stored: StoredTokens, *, is_refused: bool
    ) -> str | None:
        """Refresh, or wait for another process that does."""
        if stored.encrypted.refresh_token is None:
            if is_refused or has_expired(stored, self._clock()):
                await self._call_database_to_end(token_store.delete_tokens, stored)
            return None
        is_acquired = await self._call_database_to_end(
            token_store.acquire_refresh_lease,
            stored,
            now=self._clock(),
            until=self._clock() + LEASE_DURATION,
        )
        if not is_acquired:
            return await self._wait_for_other_process(config, user_id, stored)
        return await self._request_refresh(config, user_id, stored)

    async def _request_refresh(
        self, config: Config, user_id: UserId, stored: StoredTokens
    ) -> str | None:
        cipher = secret_keys.load_keys().cipher
        client = await self._clients.get_stored_client(
            config, stored.server, stored.client_row
        )
        try:
            refresh_token = decrypt_refresh_token(stored, user_id, cipher)
            if client is None or refresh_token is None:
                await self._call_database_to_end(token_store.delete_tokens, stored)
                return None
            new_tokens = await token_endpoint.refresh_tokens(
                self._http, client, refresh_token, now=self._clock()
            )
        except AuthServerRefused as exc:
            if exc.error not in TOKEN_REJECTED_ERRORS:
                await self._call_database_to_end(
                    token_store.release_refresh_lease, stored
                )
                raise
            logger.info("a user must connect again: %s", exc)
            await self._call_database_to_end(token_store.delete_tokens, stored)
            if client is not None and exc.error == "invalid_client":
                await self._clients.forget(client)
            return None
        except CoulisseError:
            await self._call_database_to_end(token_store.release_refresh_lease, stored)
            raise
        encrypted = encrypt_tokens(
            new_tokens, stored.server, stored.resource, user_id, cipher
        )
        if new_tokens.refresh_token is None:
            encrypted = replace(encrypted, refresh_token=stored.encrypted.refresh_token)
        is_stored = await self._call_database_to_end(
            token_store.store_refreshed, stored, encrypted, now=self._clock()
        )
        # Otherwise the user has disconnected or reconnected meanwhile.
        return new_tokens.access_token if is_stored else None

    async def _wait_for_other_process(
        self, config: Config, user_id: UserId, stored: StoredTokens
    ) -> str | None:
        """Wait for the process with the lease; return its result."""
        seconds = POLL_SECONDS
        while True:
            found = await self.read(config, stored.server, user_id)
            if found is None:
                return None
            if found.version != stored.version:
                return decrypt_access_token(
                    found, user_id, secret_keys.load_keys().cipher
                )
            until = found.refresh_lease_until
            if until is None or until <= self._clock():
                raise SignInFailed(
                    f"mcp server '{stored.server}': another process could not refresh "
                    "the user's token",
                    provider=stored.server,
                )
            await asyncio.sleep(seconds)
            seconds = min(2 * seconds, MAX_POLL_SECONDS)
