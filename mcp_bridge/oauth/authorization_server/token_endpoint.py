"""Requests to a provider's token endpoint."""

import base64
from collections.abc import Mapping
from datetime import datetime, timedelta
from urllib.parse import quote

from pydantic import BaseModel, Field, ValidationError

from mcp_bridge.oauth.authorization_server.http_requests import (
    OAuthHttpClient,
    OAuthResponse,
)
from mcp_bridge.oauth.errors import AuthServerRefused, AuthServerReplyInvalid
from mcp_bridge.oauth.tables import McpClient
from mcp_bridge.oauth.types import NewTokens

MAX_LIFETIME_SECONDS = 10 * 365 * 86_400
MAX_ERROR_LENGTH = 300


class TokenResponse(BaseModel):
    """The token response (RFC 6749 §5.1)."""

    access_token: str = Field(pattern=r"^[\x21-\x7e]+$", max_length=16_384)
    token_type: str = "Bearer"  # noqa: S105  (not a secret)
    expires_in: float | None = None
    scope: str | None = None
    refresh_token: str | None = Field(default=None, max_length=16_384)


async def redeem_code(
    http: OAuthHttpClient, client: McpClient, *, code: str, verifier: str, now: datetime
) -> NewTokens:
    """Exchange an authorization code for tokens; raises `SignInFailed`."""
    form = {
        "grant_type": "authorization_code",
        "code": code,
        "code_verifier": verifier,
        "redirect_uri": client.redirect_uri,
    }
    return _parse_tokens(client, await _post(http, client, form), now)


async def refresh_tokens(
    http: OAuthHttpClient, client: McpClient, refresh_token: str, *, now: datetime
) -> NewTokens:
    """Exchange a refresh token for new tokens; raises `SignInFailed`."""
    form = {"grant_type": "refresh_token", "refresh_token": refresh_token}
    return _parse_tokens(client, await _post(http, client, form), now)


async def is_client_known(http: OAuthHttpClient, client: McpClient) -> bool:
    """Return whether the provider still knows this client.

    The check refreshes an invalid token: the provider authenticates the client first
    (RFC 6749 §5.2). Without the check only the user would see the failure, on a page
    that this server never receives.
    """
    form = {"grant_type": "refresh_token", "refresh_token": "none"}
    response = await _post(http, client, form)
    return parse_error(response)[0] != "invalid_client"


async def revoke_token(http: OAuthHttpClient, client: McpClient, token: str) -> None:
    """Revoke a token (RFC 7009); raises `SignInFailed`."""
    endpoint = client.provider.revocation_endpoint
    if endpoint is not None:
        form = {"token": token, "token_type_hint": "refresh_token"}
        await _post(http, client, form, endpoint=endpoint, with_resource=False)


def parse_error(response: OAuthResponse) -> tuple[str, str]:
    """Return a provider's error code, and its description for users."""
    content = response.json() or {}
    error = to_single_line(content.get("error")) or f"status {response.status}"
    return error, to_single_line(content.get("error_description")) or error


def to_single_line(text: object) -> str:
    """Return external text as one short line; "" for other values."""
    if not isinstance(text, str):
        return ""
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())[
        :MAX_ERROR_LENGTH
    ]


async def _post(
    http: OAuthHttpClient,
    client: McpClient,
    form: Mapping[str, str],
    *,
    endpoint: str | None = None,
    with_resource: bool = True,
) -> OAuthResponse:
    fields = {**form, "client_id": client.client_id}
    if with_resource and client.provider.resource is not None:
        fields["resource"] = client.provider.resource
    headers: dict[str, str] = {}
    secret = client.secret
    if secret is not None and client.auth_method == "client_secret_basic":
        headers["Authorization"] = _basic_auth(client.client_id, secret)
    elif secret is not None and client.auth_method == "client_secret_post":
        fields["client_secret"] = secret
    where = endpoint or client.provider.token_endpoint
    return await http.post(client.server, where, form=fields, headers=headers)


def _basic_auth(client_id: str, secret: str) -> str:
    # Each is encoded as in a form before they are joined (RFC 6749 §2.3.1).
    pair = f"{quote(client_id, safe='')}:{quote(secret, safe='')}"
    return f"Basic {base64.b64encode(pair.encode()).decode()}"


def _parse_tokens(
    client: McpClient, response: OAuthResponse, now: datetime
) -> NewTokens:
    content = response.json()
    # Some providers (GitHub) send errors with status 200.
    if response.status != 200 or (content is not None and "error" in content):
        error, description = parse_error(response)
        raise AuthServerRefused(
            client.server,
            f"the sign-in provider issued no token: {description}",
            error=error,
            description=description,
        )
    try:
        tokens = TokenResponse.model_validate(content)
    except ValidationError as exc:
        raise AuthServerReplyInvalid(
            client.server,
            "the sign-in provider sent an invalid token response",
            # Not `from exc`: its text shows the request.
        ) from ValueError(f"{exc.error_count()} errors")
    if tokens.token_type.lower() != "bearer":
        raise AuthServerReplyInvalid(
            client.server,
            "the sign-in provider issued a token that is not a bearer token",
        )
    return NewTokens(
        tokens.access_token,
        tokens.refresh_token or None,
        tokens.scope,
        _expires_at(tokens.expires_in, now),
    )


def _expires_at(seconds: float | None, now: datetime) -> datetime | None:
    if seconds is None or not 0 <= seconds <= MAX_LIFETIME_SECONDS:
        return None
    return now + timedelta(seconds=seconds)
