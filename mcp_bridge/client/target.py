"""Where a session goes to, and for whom."""

import hashlib
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from core.ids import UserId
from mcp_bridge.config import ToolServerConfig

RenewToken = Callable[[str], Awaitable[str | None]]
"""Returns another token in place of a refused one, or None."""


class SessionKey(NamedTuple):
    """What two sessions must not share."""

    server: str
    digest: str
    """Of all that takes another session when it changes."""
    user_id: UserId | None
    """None for a server every user has in common."""


@dataclass(frozen=True, slots=True)
class ServerTarget:
    """A server, and whoever it is signed in to for."""

    name: str
    """Its key under `mcp:`."""
    server: ToolServerConfig
    folder: Path
    """The YAML's, which a command's paths are seen from."""
    user_id: UserId | None = None
    """None for a server without sign-in."""
    token: str | None = None
    renew: RenewToken | None = None

    @property
    def key(self) -> SessionKey:
        """Return what tells this session from others."""
        digest = self.server.digest
        if self.server.kind == "stdio":
            # A child is told its token when it starts, and never again.
            seen = f"{self.folder}\0{self.token or ''}"
            digest += hashlib.sha256(seen.encode()).hexdigest()
        return SessionKey(self.name, digest, self.user_id)

    @property
    def secrets(self) -> list[str]:
        """Return what must be in no log."""
        given = (*self.server.env.values(), *self.server.headers.values())
        return [*(value.get_secret_value() for value in given), self.token or ""]
