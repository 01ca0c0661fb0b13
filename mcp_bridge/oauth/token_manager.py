"""Read, refresh and end users' access tokens."""

import asyncio
import logging
from collections.abc import Mapping, Sequence
from datetime import timedelta

from config.errors import SecretsInvalid
from config.sections import Config
from core.errors import CoulisseError
from core.ids import UserId
from database import database_executor
from mcp_bridge.config import MCP
from mcp_bridge.oauth.authorization_server import token_endpoint
from mcp_bridge.oauth.authorization_server.http_requests import OAuthHttpClient
from mcp_bridge.oauth.client_registration import (
    ClientRegistry,
    Clock,
    find_server,
    now,
    redirect_uri,
    resources_with_sign_in,
)
from mcp_bridge.oauth.crypto import secret_keys
from mcp_bridge.oauth.errors import SignInFailed
from mcp_bridge.oauth.state_tokens import SignInLink
from mcp_bridge.oauth.tables import McpToken
from mcp_bridge.oauth.token_refresh import TokenRefresher
from mcp_bridge.oauth.types import AuditHook, no_audit

REFRESH_MARGIN = timedelta(seconds=60)
"""A token that expires sooner is refreshed before use."""
TIMEOUT_SECONDS = 2.0
"""How long a turn waits for a refresh while the old token is valid."""

logger = logging.getLogger(__name__)


class TokenManager:
    """Manages users' sign-ins to MCP servers; one per process."""

    def __init__(
        self, *, http: OAuthHttpClient | None = None, clock: Clock = now
    ) -> None:
        self._http = http or OAuthHttpClient()
        self._clock = clock
        self._clients = ClientRegistry(self._http, clock=clock)
        self._refresher = TokenRefresher(self._clients, http=self._http, clock=clock)

    async def tokens(
        self, config: Config, servers: Sequence[str], user_id: UserId
    ) -> Mapping[str, str | SignInFailed]:
        """Return the user's valid access token for each server they connected.

        One database call. A token about to expire is refreshed first; after a temporary
        failure the error takes its place. Servers that the user must connect are left
        out.
        """
        resources = resources_with_sign_in(config, servers)
        if not resources or not _has_secrets():
            return {}
        found = await database_executor.run(
            McpToken.objects.by_server, user_id, resources
        )
        if not found:
            return {}
        usable = await asyncio.gather(
            *(self._usable_token(config, stored) for stored in found.values())
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
        stored = await self._refresher.read(config, server, user_id)
        if stored is None:
            return None
        token = stored.decrypt("access_token")
        if token != refused:
            return token
        try:
            return await self._refresher.refresh(config, stored, is_refused=True)
        except SignInFailed as exc:
            logger.warning("could not refresh a user's token: %s", exc)
            raise _renewal_failed(server) from exc

    def link(self, config: Config, server: str, user_id: UserId) -> str:
        """Return a new URL at which only this user can connect the server.

        The user also returns to this URL: a cookie connects both visits.
        """
        link = SignInLink(server=server, user_id=user_id)
        token = link.write(now=self._clock())
        callback_url = redirect_uri(config, server, find_server(config, server)[1])
        return f"{callback_url.removesuffix('oauth/callback')}connect?token={token}"

    async def connection_states(
        self, config: Config, user_id: UserId
    ) -> dict[str, bool | None]:
        """Return whether the user is connected to each server.

        None for a server without sign-in.
        """
        servers = config.get(MCP)
        resources = resources_with_sign_in(config, [*servers])
        found: dict[str, McpToken] = {}
        if resources:
            found = await database_executor.run(
                McpToken.objects.by_server, user_id, resources
            )
        return {
            name: None
            if name not in resources
            else name in found and self._is_readable(found[name])
            for name in servers
        }

    async def disconnect(
        self,
        config: Config,
        server: str,
        user_id: UserId,
        *,
        audit: AuditHook = no_audit,
    ) -> bool:
        """End the user's sign-in, here and at the provider; return False without one.

        The local sign-in always ends; a failure at the provider is logged.
        """
        removed = await database_executor.run_to_end(
            McpToken.objects.disconnect, user_id, server, audit=audit
        )
        for stored in removed:
            await self.revoke(config, stored)
        return bool(removed)

    async def close(self) -> None:
        """Wait for running refreshes: a provider may revoke the old token."""
        await self._refresher.close()

    async def _usable_token(
        self, config: Config, stored: McpToken
    ) -> str | SignInFailed | None:
        token = stored.decrypt("access_token")
        expires_at = stored.expires_at
        if (
            token is None
            or expires_at is None
            or expires_at - REFRESH_MARGIN > self._clock()
        ):
            return token
        is_valid = expires_at > self._clock()
        try:
            async with asyncio.timeout(TIMEOUT_SECONDS if is_valid else None):
                renewed = await self._refresher.refresh(config, stored)
        except TimeoutError:
            return token  # The old token is still valid, and the refresh continues.
        except CoulisseError as exc:
            logger.warning("could not refresh a user's token: %s", exc)
            return (
                token if expires_at > self._clock() else _renewal_failed(stored.server)
            )
        if renewed is None and stored.refresh_token is None:
            return token if expires_at > self._clock() else None
        return renewed

    async def revoke(self, config: Config, stored: McpToken) -> None:
        """Revoke a removed sign-in at its provider; a failure is logged."""
        try:
            client = await self._clients.get_stored_client(
                config, stored.server, stored.client_id
            )
            if client is None or client.provider.revocation_endpoint is None:
                return
            for name in ("refresh_token", "access_token"):
                if (token := stored.decrypt(name)) is not None:
                    await token_endpoint.revoke_token(self._http, client, token)
        except CoulisseError as exc:
            logger.warning("could not revoke a user's token at its provider: %s", exc)

    def _is_readable(self, stored: McpToken) -> bool:
        if stored.decrypt("access_token") is None:
            return False
        expires_at = stored.expires_at
        is_valid = expires_at is None or expires_at > self._clock()
        return is_valid or stored.refresh_token is not None


def _renewal_failed(server: str) -> SignInFailed:
    """Return the error for the model, without internal details."""
    return SignInFailed(
        server,
        "the user's token could not be renewed because the sign-in provider does "
        "not answer; try again in a minute",
    )


def _has_secrets() -> bool:
    """Return whether keys exist; without them no user is signed in."""
    try:
        secret_keys.load_keys()
    except SecretsInvalid as exc:
        logger.error("sign-ins to MCP servers are unavailable: %s", exc)
        return False
    return True
