"""A user connects a server: from the link to the tokens."""

import base64
import hashlib
import hmac
import logging
import secrets as random
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from urllib.parse import urlencode, urlsplit, urlunsplit

from mcp.client.auth.utils import issuers_match

from config.sections import Config
from core.ids import UserId
from mcp_bridge.config import OAuth
from mcp_bridge.oauth import state_tokens, token_store, used_links
from mcp_bridge.oauth.authorization_server import token_endpoint
from mcp_bridge.oauth.authorization_server.http_requests import Web
from mcp_bridge.oauth.client_registration import (
    Clock,
    Registrar,
    find,
    now,
    resource_of,
)
from mcp_bridge.oauth.crypto import secret_keys
from mcp_bridge.oauth.errors import (
    OtherBrowser,
    OtherUser,
    ProviderBroken,
    ProviderRefused,
    TokenInvalid,
    TokenUsed,
)
from mcp_bridge.oauth.state_tokens import Link
from mcp_bridge.oauth.token_manager import boxed
from mcp_bridge.oauth.types import App, Cross, Fresh, Note, nothing_noted

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Departure:
    """Where a user goes to consent, and where they come back to."""

    url: str
    redirect_uri: str
    cookie: str
    """The name of the cookie they must bring back, if they left with one."""


@dataclass(frozen=True, slots=True)
class Return:
    """What a user comes back with."""

    state: str
    code: str | None = None
    error: str | None = None
    description: str | None = None
    issuer: str | None = None


class Connecting:
    """Leads users through providers' sign-ins."""

    def __init__(
        self,
        cross: Cross,
        cross_to_end: Cross,
        *,
        web: Web | None = None,
        clock: Clock = now,
    ) -> None:
        self._cross = cross
        self._cross_to_end = cross_to_end
        self._web = web or Web()
        self._clock = clock
        self._registrar = Registrar(cross, cross_to_end, self._web, clock=clock)

    async def read_link(self, config: Config, server: str, token: str) -> Link:
        """Return what a link says if it can be used still.

        Raises `ServerUnknown`, `NoSignIn`, `TokenInvalid`, `TokenExpired` and
        `TokenUsed`.
        """
        find(config, server)
        seals = secret_keys.load().opaque_tokens
        link = state_tokens.read_link(seals, server, token, now=self._clock())
        if await self._cross(used_links.is_spent, link.nonce):
            raise TokenUsed
        return link

    async def use_link(
        self,
        config: Config,
        server: str,
        token: str,
        *,
        browser: str,
        named: Collection[UserId] = (),
    ) -> Departure:
        """Use a link and return where the user goes from it.

        `browser` is a secret its opener gets as a cookie; `named` are those the
        request says it is for. A link whose provider fails is not used up. Raises
        as `look` does, and `OtherUser` and `SignInFailed`.
        """
        link = await self.read_link(config, server, token)
        if any(user_id != link.user_id for user_id in named):
            raise OtherUser
        departure = await self.begin(config, server, link.user_id, browser=browser)
        if not await self._cross_to_end(used_links.spend, link.nonce, link.expires_at):
            raise TokenUsed
        return departure

    async def begin(
        self, config: Config, server: str, user_id: UserId, *, browser: str | None
    ) -> Departure:
        """Return where a user goes to consent; raises `SignInFailed`.

        With `browser` only who has this secret can come back.
        """
        configured, oauth = find(config, server)
        app = await self._registrar.client(config, server)
        verifier = random.token_urlsafe(48)
        nonce = state_tokens.new_nonce()
        state = state_tokens.new_state(
            secret_keys.load().opaque_tokens,
            server,
            user_id,
            nonce=nonce,
            client_row=app.row,
            resource=resource_of(configured),
            verifier=verifier,
            browser=browser,
            now=self._clock(),
        )
        return Departure(
            _authorization_url(app, oauth, state, verifier),
            app.redirect_uri,
            cookie(nonce),
        )

    async def finish(
        self,
        config: Config,
        server: str,
        came: Return,
        *,
        cookies: Mapping[str, str],
        note_of: Callable[[UserId], Note] = lambda _: nothing_noted,
    ) -> None:
        """Take a user back who consented, and store their tokens.

        Raises as `look` does, and `OtherBrowser` and `SignInFailed`.
        """
        configured, oauth = find(config, server)
        seals = secret_keys.load().opaque_tokens
        state = state_tokens.read_state(seals, server, came.state, now=self._clock())
        link = state.link
        if state.browser and not hmac.compare_digest(
            state.browser, state_tokens.digest(cookies.get(cookie(link.nonce), ""))
        ):
            raise OtherBrowser
        if not await self._cross_to_end(used_links.spend, link.nonce, link.expires_at):
            raise TokenUsed
        resource = resource_of(configured)
        app = await self._registrar.stored_client(config, server, state.client_row)
        if app is None or state.resource != state_tokens.digest(resource):
            raise TokenInvalid("The server's sign-in was set up anew in the meantime.")
        fresh = await self._redeem(app, came, state.verifier)
        boxes = boxed(fresh, server, resource, link.user_id, secret_keys.load().cipher)
        if boxes.scopes is None:
            asked = oauth.scopes or app.provider.scopes
            boxes = replace(boxes, scopes=" ".join(asked))
        await self._cross_to_end(
            token_store.put,
            link.user_id,
            server,
            resource,
            app.row,
            boxes,
            now=self._clock(),
            note=note_of(link.user_id),
        )
        logger.info("a user connected mcp server '%s'", server)

    async def _redeem(self, app: App, came: Return, verifier: str) -> Fresh:
        _check_issuer(app, came.issuer)
        if came.error is not None:
            words = token_endpoint.line(came.description or came.error)
            raise ProviderRefused(
                f"mcp server '{app.server}': its sign-in's provider says: {words}",
                error=came.error,
                description=words,
                provider=app.server,
            )
        if not came.code:
            raise ProviderBroken(
                f"mcp server '{app.server}': its sign-in's provider sends users back "
                "without a code",
                provider=app.server,
            )
        try:
            return await token_endpoint.redeem(
                *(self._web, app), code=came.code, verifier=verifier, now=self._clock()
            )
        except ProviderRefused as exc:
            if exc.error == "invalid_client":
                await self._registrar.forget(app)
            raise


def cookie(nonce: str) -> str:
    """Return the name of a sign-in's cookie: several may be under way at once."""
    return f"coulisse-sign-in-{nonce[:12]}"


def _check_issuer(app: App, issuer: str | None) -> None:
    """Refuse an answer that another provider sends (RFC 9207)."""
    expected = app.provider.issuer
    if not expected:
        return
    if issuer is None and not app.provider.has_issuer_parameter:
        return
    if issuer is None or not issuers_match(issuer, expected):
        raise ProviderBroken(
            f"mcp server '{app.server}': the answer does not come from {expected}",
            provider=app.server,
        )


def _authorization_url(app: App, oauth: OAuth, state: str, verifier: str) -> str:
    digest = hashlib.sha256(verifier.encode()).digest()
    asked = {
        "response_type": "code",
        "client_id": app.client_id,
        "redirect_uri": app.redirect_uri,
        "state": state,
        "code_challenge": base64.urlsafe_b64encode(digest).decode().rstrip("="),
        "code_challenge_method": "S256",
    }
    scopes = oauth.scopes or app.provider.scopes
    if scopes:
        asked["scope"] = " ".join(scopes)
    if app.provider.resource is not None:
        asked["resource"] = app.provider.resource
    if "offline_access" in scopes:
        # OpenID Connect gives a refresh token only with it.
        asked["prompt"] = "consent"
    parts = urlsplit(app.provider.authorization_endpoint)
    query = "&".join(filter(None, (parts.query, urlencode(asked))))
    return urlunsplit(parts._replace(query=query, fragment=""))
