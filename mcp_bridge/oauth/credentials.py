"""What a session needs to know of a user's sign-in, whoever keeps it."""

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

        One trip to the database. A token about to expire is refreshed first; where
        that fails just now the error stands in its place. A server the user has to
        connect (never connected, refused, revoked) is left out.
        """

    async def renew(
        self, config: Config, server: str, user_id: UserId, refused: str
    ) -> str | None:
        """Return another token in place of one the server answered with 401.

        None when the user has to connect again. Of several callers one refreshes.
        """

    def link(self, config: Config, server: str, user_id: UserId) -> str:
        """Return a new URL at which this user, and no other, connects the server."""
