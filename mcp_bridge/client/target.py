"""The target of a session: a server and a user."""

import hashlib
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from config.sections import Config
from core.ids import UserId
from mcp_bridge.config import MCP, ToolServerConfig

RenewToken = Callable[[str], Awaitable[str | None]]
"""Returns another token in place of a refused one, or None."""


class SessionKey(NamedTuple):
    server: str
    digest: str
    """A digest of all settings that require a new session when they change."""
    user_id: UserId | None
    """None for a server shared by all users."""


@dataclass(frozen=True, slots=True)
class ServerTarget:
    """A server, and the user whose sign-in applies."""

    name: str
    """Its key under `mcp:`."""
    server: ToolServerConfig
    folder: Path
    """The YAML's directory, the base of relative command paths."""
    user_id: UserId | None = None
    """None for a server without sign-in."""
    token: str | None = None
    renew: RenewToken | None = None

    @classmethod
    def shared(cls, config: Config, name: str) -> "ServerTarget":
        """Return the target for all users of a server."""
        return cls(name, config.get(MCP)[name], config.path.absolute().parent)

    @property
    def key(self) -> SessionKey:
        digest = self.server.digest
        if self.server.kind == "stdio":
            # A child receives its token only at its start.
            context = f"{self.folder}\0{self.token or ''}"
            digest += hashlib.sha256(context.encode()).hexdigest()
        return SessionKey(self.name, digest, self.user_id)

    @property
    def secrets(self) -> list[str]:
        """Return the values that logs must not contain."""
        values = (*self.server.env.values(), *self.server.headers.values())
        return [*(value.get_secret_value() for value in values), self.token or ""]
