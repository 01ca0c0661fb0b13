"""The content of links and states: user, server, expiry."""

import secrets
from dataclasses import dataclass
from datetime import datetime, timedelta
from hashlib import sha256
from typing import Any
from uuid import UUID

from core.ids import UserId
from mcp_bridge.oauth.crypto.opaque_tokens import OpaqueTokens
from mcp_bridge.oauth.errors import LinkInvalid

LIFETIME = timedelta(minutes=10)


@dataclass(frozen=True, slots=True)
class SignInLink:
    """A link for one user to one server's sign-in."""

    server: str
    user_id: UserId
    nonce: str
    expires_at: datetime


@dataclass(frozen=True, slots=True)
class SignInState:
    """The OAuth `state` of a sign-in."""

    link: SignInLink
    client_row: int | None
    resource: str
    """A digest of the server's URL at the start of the sign-in."""
    verifier: str
    """The PKCE verifier."""
    browser: str
    """A digest of the browser's cookie; empty without a browser."""


def new_link(
    opaque_tokens: OpaqueTokens, server: str, user_id: UserId, *, now: datetime
) -> str:
    """Return a token that lets this user connect the server, once."""
    content = {"s": server, "u": user_id.hex, "n": new_nonce()}
    return opaque_tokens.write("link", content, expires_at=now + LIFETIME)


def read_link(
    opaque_tokens: OpaqueTokens, server: str, token: str, *, now: datetime
) -> SignInLink:
    """Return a link's content; raises `LinkInvalid` and `LinkExpired`."""
    return _parse_link(server, opaque_tokens.read("link", token, now=now), now)


def new_state(
    opaque_tokens: OpaqueTokens,
    server: str,
    user_id: UserId,
    *,
    nonce: str,
    client_row: int | None,
    resource: str,
    verifier: str,
    browser: str | None,
    now: datetime,
) -> str:
    """Return a new state for the provider to return."""
    content = {
        "s": server,
        "u": user_id.hex,
        "n": nonce,
        "c": client_row,
        "r": short_digest(resource),
        "v": verifier,
        "b": "" if browser is None else short_digest(browser),
    }
    return opaque_tokens.write("state", content, expires_at=now + LIFETIME)


def read_state(
    opaque_tokens: OpaqueTokens, server: str, token: str, *, now: datetime
) -> SignInState:
    """Return a state's content; raises `LinkInvalid` and `LinkExpired`."""
    content = opaque_tokens.read("state", token, now=now)
    return SignInState(
        _parse_link(server, content, now),
        content["c"],
        content["r"],
        content["v"],
        content["b"],
    )


def _parse_link(server: str, content: dict[str, Any], now: datetime) -> SignInLink:
    if content["s"] != server:
        raise LinkInvalid
    # How long a used link is stored, longer than it is valid.
    return SignInLink(
        server, UserId(UUID(content["u"])), content["n"], now + 2 * LIFETIME
    )


def short_digest(text: str) -> str:
    """Return a short digest of a text."""
    return sha256(text.encode()).hexdigest()[:32]


def new_nonce() -> str:
    """Return a unique nonce for a link."""
    return secrets.token_hex(16)
