"""What passes between this server and a provider's token endpoint."""

import base64
from collections.abc import Mapping
from datetime import datetime, timedelta
from urllib.parse import quote

from pydantic import BaseModel, Field, ValidationError

from mcp_bridge.oauth.authorization_server.http_requests import Answer, Web
from mcp_bridge.oauth.errors import ProviderBroken, ProviderRefused
from mcp_bridge.oauth.types import App, Fresh

MAX_LIFETIME_SECONDS = 10 * 365 * 86_400
MAX_TOLD = 300


class TokenAnswer(BaseModel):
    """What a token endpoint says when it gives tokens (RFC 6749 §5.1)."""

    access_token: str = Field(pattern=r"^[\x21-\x7e]+$", max_length=16_384)
    token_type: str = "Bearer"  # noqa: S105  (not a secret)
    expires_in: float | None = None
    scope: str | None = None
    refresh_token: str | None = Field(default=None, max_length=16_384)


async def redeem(
    web: Web, app: App, *, code: str, verifier: str, now: datetime
) -> Fresh:
    """Exchange what a user came back with for tokens; raises `SignInFailed`."""
    form = {
        "grant_type": "authorization_code",
        "code": code,
        "code_verifier": verifier,
        "redirect_uri": app.redirect_uri,
    }
    return _tokens(app, await _post(web, app, form), now)


async def refresh(web: Web, app: App, refresh_token: str, *, now: datetime) -> Fresh:
    """Exchange a refresh token for new tokens; raises `SignInFailed`."""
    form = {"grant_type": "refresh_token", "refresh_token": refresh_token}
    return _tokens(app, await _post(web, app, form), now)


async def is_known(web: Web, app: App) -> bool:
    """Return whether the provider still knows this server.

    It is asked to refresh what is no token: first of all it looks who asks (RFC 6749
    §5.2). Otherwise only the user would see, on a page we never learn of.
    """
    form = {"grant_type": "refresh_token", "refresh_token": "none"}
    answer = await _post(web, app, form)
    return told(answer)[0] != "invalid_client"


async def revoke(web: Web, app: App, token: str) -> None:
    """Have a provider forget a token (RFC 7009); raises `SignInFailed`."""
    place = app.provider.revocation_endpoint
    if place is not None:
        form = {"token": token, "token_type_hint": "refresh_token"}
        await _post(web, app, form, place=place, with_resource=False)


def told(answer: Answer) -> tuple[str, str]:
    """Return the error a provider tells, and its words for people to read."""
    content = answer.json() or {}
    error = line(content.get("error")) or f"status {answer.status}"
    return error, line(content.get("error_description")) or error


def line(text: object) -> str:
    """Return what others wrote as one short line; nothing for what is no text."""
    if not isinstance(text, str):
        return ""
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())[
        :MAX_TOLD
    ]


async def _post(
    web: Web,
    app: App,
    form: Mapping[str, str],
    *,
    place: str | None = None,
    with_resource: bool = True,
) -> Answer:
    fields = {**form, "client_id": app.client_id}
    if with_resource and app.provider.resource is not None:
        fields["resource"] = app.provider.resource
    headers: dict[str, str] = {}
    secret = app.client_secret
    if secret is not None and app.auth_method == "client_secret_basic":
        headers["Authorization"] = _basic(app.client_id, secret)
    elif secret is not None and app.auth_method == "client_secret_post":
        fields["client_secret"] = secret
    where = place or app.provider.token_endpoint
    return await web.post(app.server, where, form=fields, headers=headers)


def _basic(client_id: str, secret: str) -> str:
    # Each is encoded as in a form before they are joined (RFC 6749 §2.3.1).
    pair = f"{quote(client_id, safe='')}:{quote(secret, safe='')}"
    return f"Basic {base64.b64encode(pair.encode()).decode()}"


def _tokens(app: App, answer: Answer, now: datetime) -> Fresh:
    content = answer.json()
    # Some (GitHub) tell errors with the status 200.
    if answer.status != 200 or (content is not None and "error" in content):
        error, description = told(answer)
        raise ProviderRefused(
            f"mcp server '{app.server}': its sign-in's provider gives no token: "
            f"{description}",
            error=error,
            description=description,
            provider=app.server,
        )
    try:
        given = TokenAnswer.model_validate(content)
    except ValidationError as exc:
        raise ProviderBroken(
            f"mcp server '{app.server}': its sign-in's provider answers with what is "
            f"no token",
            provider=app.server,
            # Not `from exc`: its words show what was sent.
        ) from ValueError(f"{exc.error_count()} faults")
    if given.token_type.lower() != "bearer":
        raise ProviderBroken(
            f"mcp server '{app.server}': its sign-in's provider gives a token that is "
            "no bearer token",
            provider=app.server,
        )
    return Fresh(
        given.access_token,
        given.refresh_token or None,
        given.scope,
        _ends(given.expires_in, now),
    )


def _ends(seconds: float | None, now: datetime) -> datetime | None:
    if seconds is None or not 0 <= seconds <= MAX_LIFETIME_SECONDS:
        return None
    return now + timedelta(seconds=seconds)
