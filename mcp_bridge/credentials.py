"""What a session needs to know of a user's sign-in, whoever keeps it."""

from collections.abc import Mapping, Sequence
from typing import Protocol

from config.sections import Config
from core.ids import UserId


class Credentials(Protocol):
    """Users' access tokens for MCP servers."""

    async def tokens(
        self, config: Config, servers: Sequence[str], user_id: UserId
    ) -> Mapping[str, str]:
        """Return the user's valid access token for each server they connected.

        One trip to the database. A token about to expire is refreshed first; a server
        whose token cannot be had (never connected, refused, revoked) is left out.
        """

    async def renewed(
        self, config: Config, server: str, user_id: UserId, refused: str
    ) -> str | None:
        """Return another token in place of one the server answered with 401.

        None when the user has to connect again. Of several callers one refreshes.
        """

    def link(self, config: Config, server: str, user_id: UserId) -> str:
        """Return a new URL at which this user, and no other, connects the server."""
