"""The interface to users' access tokens."""

from collections.abc import Mapping, Sequence
from typing import Protocol

from config.sections import Config
from core.ids import UserId
from mcp_bridge.oauth.errors import SignInFailed


class Credentials(Protocol):
    """Users' access tokens for MCP servers."""

    async def tokens(
        self, config: Config, servers: Sequence[str], user_id: UserId
    ) -> Mapping[str, str | SignInFailed]:
        """Return the user's valid access token for each server they connected.

        One database call. A token about to expire is refreshed first; after a temporary
        failure the error takes its place. Servers that the user must connect (never
        connected, refused, revoked) are left out.
        """

    async def renew(
        self, config: Config, server: str, user_id: UserId, refused: str
    ) -> str | None:
        """Return a new token in place of one that the server answered with 401.

        None if the user must connect again. Only one of several callers refreshes.
        """

    def link(self, config: Config, server: str, user_id: UserId) -> str:
        """Return a new URL at which only this user can connect the server."""
