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
from mcp_bridge.oauth.types import NewTokens, RegisteredClient

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
    web: OAuthHttpClient,
    app: RegisteredClient,
    *,
    code: str,
    verifier: str,
    now: datetime,
) -> NewTokens:
    """Exchange an authorization code for tokens; raises `SignInFailed`."""
    form = {
        "grant_type": "authorization_code",
        "code": code,
        "code_verifier": verifier,
        "redirect_uri": app.redirect_uri,
    }
    return _parse_tokens(app, await _post(web, app, form), now)


async def refresh_tokens(
    web: OAuthHttpClient, app: RegisteredClient, refresh_token: str, *, now: datetime
) -> NewTokens:
    """Exchange a refresh token for new tokens; raises `SignInFailed`."""
    form = {"grant_type": "refresh_token", "refresh_token": refresh_token}
    return _parse_tokens(app, await _post(web, app, form), now)


async def is_client_known(web: OAuthHttpClient, app: RegisteredClient) -> bool:
    """Return whether the provider still knows this client.

    The check refreshes an invalid token: the provider authenticates the client first
    (RFC 6749 §5.2). Without the check only the user would see the failure, on a page
    that this server never receives.
    """
    form = {"grant_type": "refresh_token", "refresh_token": "none"}
    answer = await _post(web, app, form)
    return parse_error(answer)[0] != "invalid_client"


async def revoke_token(web: OAuthHttpClient, app: RegisteredClient, token: str) -> None:
    """Revoke a token (RFC 7009); raises `SignInFailed`."""
    place = app.provider.revocation_endpoint
    if place is not None:
        form = {"token": token, "token_type_hint": "refresh_token"}
        await _post(web, app, form, place=place, with_resource=False)


def parse_error(answer: OAuthResponse) -> tuple[str, str]:
    """Return a provider's error code, and its description for users."""
    content = answer.json() or {}
    error = to_single_line(content.get("error")) or f"status {answer.status}"
    return error, to_single_line(content.get("error_description")) or error


def to_single_line(text: object) -> str:
    """Return external text as one short line; "" for other values."""
    if not isinstance(text, str):
        return ""
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())[
        :MAX_ERROR_LENGTH
    ]


async def _post(
    web: OAuthHttpClient,
    app: RegisteredClient,
    form: Mapping[str, str],
    *,
    place: str | None = None,
    with_resource: bool = True,
) -> OAuthResponse:
    fields = {**form, "client_id": app.client_id}
    if with_resource and app.provider.resource is not None:
        fields["resource"] = app.provider.resource
    headers: dict[str, str] = {}
    secret = app.client_secret
    if secret is not None and app.auth_method == "client_secret_basic":
        headers["Authorization"] = _basic_auth(app.client_id, secret)
    elif secret is not None and app.auth_method == "client_secret_post":
        fields["client_secret"] = secret
    where = place or app.provider.token_endpoint
    return await web.post(app.server, where, form=fields, headers=headers)


def _basic_auth(client_id: str, secret: str) -> str:
    # Each is encoded as in a form before they are joined (RFC 6749 §2.3.1).
    pair = f"{quote(client_id, safe='')}:{quote(secret, safe='')}"
    return f"Basic {base64.b64encode(pair.encode()).decode()}"


def _parse_tokens(
    app: RegisteredClient, answer: OAuthResponse, now: datetime
) -> NewTokens:
    content = answer.json()
    # Some providers (GitHub) send errors with status 200.
    if answer.status != 200 or (content is not None and "error" in content):
        error, description = parse_error(answer)
        raise AuthServerRefused(
            f"mcp server '{app.server}': the sign-in provider issued no token: "
            f"{description}",
            error=error,
            description=description,
            provider=app.server,
        )
    try:
        given = TokenResponse.model_validate(content)
    except ValidationError as exc:
        raise AuthServerReplyInvalid(
            f"mcp server '{app.server}': the sign-in provider sent an invalid token "
            "response",
            provider=app.server,
            # Not `from exc`: its text shows the request.
        ) from ValueError(f"{exc.error_count()} errors")
    if given.token_type.lower() != "bearer":
        raise AuthServerReplyInvalid(
            f"mcp server '{app.server}': the sign-in provider issued a token that is "
            "not a bearer token",
            provider=app.server,
        )
    return NewTokens(
        given.access_token,
        given.refresh_token or None,
        given.scope,
        _expires_at(given.expires_in, now),
    )


def _expires_at(seconds: float | None, now: datetime) -> datetime | None:
    if seconds is None or not 0 <= seconds <= MAX_LIFETIME_SECONDS:
        return None
    return now + timedelta(seconds=seconds)
