"""Refresh users' tokens: once per token, across tasks and processes."""

import asyncio
import logging
from datetime import timedelta

from config.sections import Config
from core.errors import CoulisseError
from core.ids import UserId
from core.runtime.backoff import Backoff
from database import database_executor
from mcp_bridge.oauth.authorization_server import token_endpoint
from mcp_bridge.oauth.authorization_server.http_requests import OAuthHttpClient
from mcp_bridge.oauth.client_registration import (
    ClientRegistry,
    Clock,
    resources_with_sign_in,
)
from mcp_bridge.oauth.errors import AuthServerRefused, SignInFailed
from mcp_bridge.oauth.tables import McpToken

logger = logging.getLogger(__name__)

LEASE_DURATION = timedelta(seconds=30)
"""The lease of a refreshing process; after this another may refresh."""
POLL_SECONDS = 0.05
MAX_POLL_SECONDS = 1.0

TOKEN_REJECTED_ERRORS = {"invalid_client", "invalid_grant", "unauthorized_client"}
"""Refresh errors after which the user must connect again."""

Key = tuple[asyncio.AbstractEventLoop, int]
"""Tasks belong to one event loop; between loops the database lease decides."""


class TokenRefresher:
    """Refreshes tokens; concurrent callers share one refresh."""

    def __init__(
        self, clients: ClientRegistry, *, http: OAuthHttpClient, clock: Clock
    ) -> None:
        self._clients = clients
        self._http = http
        self._clock = clock
        self._running: dict[Key, asyncio.Task[str | None]] = {}

    async def refresh(
        self, config: Config, stored: McpToken, *, is_refused: bool = False
    ) -> str | None:
        """Return a new token; concurrent callers share one refresh.

        The refresh continues if the caller is cancelled: the provider may revoke the
        old refresh token as soon as it issues a new one.
        """
        key = asyncio.get_running_loop(), stored.pk
        task = self._running.get(key)
        if task is None:
            refreshing = self._refresh_once(config, stored, is_refused=is_refused)
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
    ) -> McpToken | None:
        resources = resources_with_sign_in(config, [server])
        found = await database_executor.run(
            McpToken.objects.by_server, user_id, resources
        )
        return found.get(server)

    def _finish_refresh(self, key: Key, task: asyncio.Task[str | None]) -> None:
        del self._running[key]
        if not task.cancelled():
            task.exception()  # Waiting callers receive the exception.

    async def _refresh_once(
        self, config: Config, stored: McpToken, *, is_refused: bool
    ) -> str | None:
        """Refresh, or wait for another process that does."""
        if stored.refresh_token is None:
            if is_refused or stored.has_expired(self._clock()):
                await database_executor.run_to_end(stored.delete_unchanged)
            return None
        is_acquired = await database_executor.run_to_end(
            stored.acquire_refresh_lease,
            now=self._clock(),
            until=self._clock() + LEASE_DURATION,
        )
        if not is_acquired:
            return await self._wait_for_other_process(config, stored)
        return await self._request_refresh(config, stored)

    async def _request_refresh(self, config: Config, stored: McpToken) -> str | None:
        client = await self._clients.get_stored_client(
            config, stored.server, stored.client_id
        )
        try:
            refresh_token = stored.decrypt("refresh_token")
            if client is None or refresh_token is None:
                await database_executor.run_to_end(stored.delete_unchanged)
                return None
            new_tokens = await token_endpoint.refresh_tokens(
                self._http, client, refresh_token, now=self._clock()
            )
        except AuthServerRefused as exc:
            if exc.error not in TOKEN_REJECTED_ERRORS:
                await database_executor.run_to_end(stored.release_refresh_lease)
                raise
            logger.info("a user must connect again: %s", exc)
            await database_executor.run_to_end(stored.delete_unchanged)
            if client is not None and exc.error == "invalid_client":
                await database_executor.run_to_end(client.forget)
            return None
        except CoulisseError:
            await database_executor.run_to_end(stored.release_refresh_lease)
            raise
        is_stored = await database_executor.run_to_end(
            stored.store_refreshed, new_tokens, now=self._clock()
        )
        # Otherwise the user has disconnected or reconnected meanwhile.
        return new_tokens.access_token if is_stored else None

    async def _wait_for_other_process(
        self, config: Config, stored: McpToken
    ) -> str | None:
        """Wait for the process with the lease; return its result."""
        backoff = Backoff(POLL_SECONDS, MAX_POLL_SECONDS)
        while True:
            found = await self.read(config, stored.server, UserId(stored.user_id))
            if found is None:
                return None
            if found.version != stored.version:
                return found.decrypt("access_token")
            until = found.refresh_lease_until
            if until is None or until <= self._clock():
                raise SignInFailed(
                    stored.server, "another process could not refresh the user's token"
                )
            await asyncio.sleep(backoff.next_seconds())
