"""Read, refresh and end users' access tokens."""

import asyncio
import contextlib
import logging
from collections.abc import Mapping, Sequence
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
    resources_with_sign_in,
)
from mcp_bridge.oauth.crypto import secret_keys
from mcp_bridge.oauth.crypto.encryption import DecryptionFailed
from mcp_bridge.oauth.errors import SignInFailed
from mcp_bridge.oauth.state_tokens import new_link
from mcp_bridge.oauth.token_encryption import (
    decrypt_access_token,
    decrypt_refresh_token,
)
from mcp_bridge.oauth.token_refresh import TokenRefresher
from mcp_bridge.oauth.types import (
    AuditHook,
    CallDatabase,
    StoredTokens,
    no_audit,
)

REFRESH_MARGIN = timedelta(seconds=60)
"""A token that expires sooner is refreshed before use."""
TIMEOUT_SECONDS = 2.0
"""How long a turn waits for a refresh while the old token is valid."""

logger = logging.getLogger(__name__)


class TokenManager:
    """Manages users' sign-ins to MCP servers; one per process.

    `call_database` and `call_database_to_end` are `run` and `run_to_end` of
    `database.database_executor`.
    """

    def __init__(
        self,
        call_database: CallDatabase,
        call_database_to_end: CallDatabase,
        *,
        http: OAuthHttpClient | None = None,
        clock: Clock = now,
    ) -> None:
        self._call_database = call_database
        self._call_database_to_end = call_database_to_end
        self._http = http or OAuthHttpClient()
        self._clock = clock
        self._clients = ClientRegistry(
            call_database, call_database_to_end, self._http, clock=clock
        )
        self._refresher = TokenRefresher(
            call_database,
            call_database_to_end,
            self._clients,
            http=self._http,
            clock=clock,
        )

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
        found: dict[str, StoredTokens] = await self._call_database(
            token_store.read_tokens, user_id, resources
        )
        if not found:
            return {}
        usable = await asyncio.gather(
            *(self._usable_token(config, user_id, stored) for stored in found.values())
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
        token = decrypt_access_token(stored, user_id, secret_keys.load_keys().cipher)
        if token != refused:
            return token
        try:
            return await self._refresher.refresh(
                config, user_id, stored, is_refused=True
            )
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
        found: dict[str, StoredTokens] = {}
        if resources:
            found = await self._call_database(
                token_store.read_tokens, user_id, resources
            )
        return {
            name: None
            if name not in resources
            else name in found and self._is_readable(found[name], user_id)
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
        removed: list[StoredTokens] = await self._call_database_to_end(
            token_store.disconnect, user_id, server, audit=audit
        )
        for stored in removed:
            with contextlib.suppress(DecryptionFailed):
                await self._revoke(config, user_id, stored)
        return bool(removed)

    async def close(self) -> None:
        """Wait for running refreshes: a provider may revoke the old token."""
        await self._refresher.close()

    async def _usable_token(
        self, config: Config, user_id: UserId, stored: StoredTokens
    ) -> str | SignInFailed | None:
        token = decrypt_access_token(stored, user_id, secret_keys.load_keys().cipher)
        expires_at = stored.encrypted.expires_at
        if (
            token is None
            or expires_at is None
            or expires_at - REFRESH_MARGIN > self._clock()
        ):
            return token
        is_valid = expires_at > self._clock()
        try:
            async with asyncio.timeout(TIMEOUT_SECONDS if is_valid else None):
                renewed = await self._refresher.refresh(config, user_id, stored)
        except TimeoutError:
            return token  # The old token is still valid, and the refresh continues.
        except CoulisseError as exc:
            logger.warning("could not refresh a user's token: %s", exc)
            return (
                token if expires_at > self._clock() else _renewal_failed(stored.server)
            )
        if renewed is None and stored.encrypted.refresh_token is None:
            return token if expires_at > self._clock() else None
        return renewed

    async def _revoke(
        self, config: Config, user_id: UserId, stored: StoredTokens
    ) -> None:
        try:
            client = await self._clients.get_stored_client(
                config, stored.server, stored.client_row
            )
            if client is None or client.provider.revocation_endpoint is None:
                return
            cipher = secret_keys.load_keys().cipher
            for token in (
                decrypt_refresh_token(stored, user_id, cipher),
                decrypt_access_token(stored, user_id, cipher),
            ):
                if token is not None:
                    await token_endpoint.revoke_token(self._http, client, token)
        except CoulisseError as exc:
            logger.warning("could not revoke a user's token at its provider: %s", exc)

    def _is_readable(self, stored: StoredTokens, user_id: UserId) -> bool:
        if (
            decrypt_access_token(stored, user_id, secret_keys.load_keys().cipher)
            is None
        ):
            return False
        expires_at = stored.encrypted.expires_at
        is_valid = expires_at is None or expires_at > self._clock()
        return is_valid or stored.encrypted.refresh_token is not None


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
