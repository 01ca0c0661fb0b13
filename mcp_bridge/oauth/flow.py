"""The sign-in flow of a user to a server, from the link to the tokens."""

import hmac
import logging
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from urllib.parse import urlencode, urlsplit, urlunsplit

from mcp.client.auth import PKCEParameters
from mcp.client.auth.utils import issuers_match

from config.sections import Config
from core.ids import UserId
from database import database_executor
from mcp_bridge.config import OAuthConfig
from mcp_bridge.oauth.authorization_server import token_endpoint
from mcp_bridge.oauth.authorization_server.http_requests import OAuthHttpClient
from mcp_bridge.oauth.client_registration import (
    ClientRegistry,
    Clock,
    find_server,
    now,
    resource_url,
)
from mcp_bridge.oauth.errors import (
    AuthServerRefused,
    AuthServerReplyInvalid,
    BrowserMismatch,
    LinkInvalid,
    LinkUsed,
    UserMismatch,
)
from mcp_bridge.oauth.state_tokens import MEMORY, SignInLink, SignInState, short_digest
from mcp_bridge.oauth.tables import McpClient, McpToken, McpUsedLink
from mcp_bridge.oauth.types import AuditHook, NewTokens, no_audit

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class AuthorizationRedirect:
    """The consent URL, and the data for the user's return."""

    url: str
    redirect_uri: str
    cookie: str
    """The name of the cookie required on return, if any."""


@dataclass(frozen=True, slots=True)
class AuthorizationResponse:
    """The parameters of the user's return."""

    state: str
    code: str | None = None
    error: str | None = None
    description: str | None = None
    issuer: str | None = None


class AuthorizationFlow:
    """Runs users' sign-ins with providers."""

    def __init__(
        self, *, http: OAuthHttpClient | None = None, clock: Clock = now
    ) -> None:
        self._http = http or OAuthHttpClient()
        self._clock = clock
        self._clients = ClientRegistry(self._http, clock=clock)

    async def read_link(self, config: Config, server: str, token: str) -> SignInLink:
        """Return a link's content if it is still usable.

        Raises `ServerUnknown`, `SignInUnsupported`, `LinkInvalid`, `LinkExpired` and
        `LinkUsed`.
        """
        find_server(config, server)
        link = SignInLink.read(server, token, now=self._clock())
        if await database_executor.run(McpUsedLink.objects.is_used, link.nonce):
            raise LinkUsed
        return link

    async def use_link(
        self,
        config: Config,
        server: str,
        token: str,
        *,
        browser: str,
        user_ids: Collection[UserId] = (),
    ) -> AuthorizationRedirect:
        """Use a link and return the redirect to the provider.

        `browser` is a secret that the browser gets as a cookie; the request names the
        users `user_ids`. If the provider fails, the link stays usable. Raises the
        errors of `read_link`, and `UserMismatch` and `SignInFailed`.
        """
        link = await self.read_link(config, server, token)
        if any(user_id != link.user_id for user_id in user_ids):
            raise UserMismatch
        redirect = await self.begin(config, server, link.user_id, browser=browser)
        await self._mark_used(link)
        return redirect

    async def begin(
        self, config: Config, server: str, user_id: UserId, *, browser: str | None
    ) -> AuthorizationRedirect:
        """Return the redirect to the consent page; raises `SignInFailed`.

        With `browser`, only the browser with this secret can complete the sign-in.
        """
        configured, oauth = find_server(config, server)
        client = await self._clients.get_client(config, server)
        pkce = PKCEParameters.generate()
        state = SignInState(
            server=server,
            user_id=user_id,
            client_row=client.pk,
            resource=short_digest(resource_url(configured)),
            verifier=pkce.code_verifier,
            browser="" if browser is None else short_digest(browser),
        )
        token = state.write(now=self._clock())
        return AuthorizationRedirect(
            _authorization_url(client, oauth, token, pkce.code_challenge),
            client.redirect_uri,
            cookie_name(state.nonce),
        )

    async def finish(
        self,
        config: Config,
        server: str,
        response: AuthorizationResponse,
        *,
        cookies: Mapping[str, str],
        audit_for: Callable[[UserId], AuditHook] = lambda _: no_audit,
    ) -> None:
        """Complete a sign-in after consent, and store the tokens.

        Raises the errors of `read_link`, and `BrowserMismatch` and `SignInFailed`.
        """
        configured, oauth = find_server(config, server)
        state = SignInState.read(server, response.state, now=self._clock())
        cookie = cookies.get(cookie_name(state.nonce), "")
        if state.browser and not hmac.compare_digest(
            state.browser, short_digest(cookie)
        ):
            raise BrowserMismatch
        await self._mark_used(state)
        resource = resource_url(configured)
        client = await self._clients.get_stored_client(config, server, state.client_row)
        if client is None or state.resource != short_digest(resource):
            raise LinkInvalid(
                "The sign-in of this server has changed; request a new link."
            )
        new_tokens = await self._redeem(client, response, state.verifier)
        if new_tokens.scopes is None:
            scopes = oauth.scopes or client.provider.scopes
            new_tokens = replace(new_tokens, scopes=" ".join(scopes))
        await database_executor.run_to_end(
            McpToken.objects.connect,
            state.user_id,
            server,
            resource,
            client.pk,
            new_tokens,
            now=self._clock(),
            audit=audit_for(state.user_id),
        )
        logger.info("a user connected mcp server '%s'", server)

    async def _mark_used(self, link: SignInLink) -> None:
        """Use up a link or a state; raises `LinkUsed`."""
        forget_at = self._clock() + MEMORY
        mark = McpUsedLink.objects.mark_used
        if not await database_executor.run_to_end(mark, link.nonce, forget_at):
            raise LinkUsed

    async def _redeem(
        self, client: McpClient, response: AuthorizationResponse, verifier: str
    ) -> NewTokens:
        _check_issuer(client, response.issuer)
        if response.error is not None:
            reason = token_endpoint.to_single_line(
                response.description or response.error
            )
            raise AuthServerRefused(
                client.server,
                f"the sign-in provider refused: {reason}",
                error=response.error,
                description=reason,
            )
        if not response.code:
            raise AuthServerReplyInvalid(
                client.server, "the sign-in provider returned no authorization code"
            )
        try:
            return await token_endpoint.redeem_code(
                self._http,
                client,
                code=response.code,
                verifier=verifier,
                now=self._clock(),
            )
        except AuthServerRefused as exc:
            if exc.error == "invalid_client":
                await database_executor.run_to_end(client.forget)
            raise


def cookie_name(nonce: str) -> str:
    """Return the name of a sign-in's cookie; several sign-ins may run at once."""
    return f"coulisse-sign-in-{nonce[:12]}"


def _check_issuer(client: McpClient, issuer: str | None) -> None:
    """Refuse a response from another issuer (RFC 9207)."""
    expected = client.provider.issuer
    if not expected:
        return
    if issuer is None and not client.provider.has_issuer_parameter:
        return
    if issuer is None or not issuers_match(issuer, expected):
        raise AuthServerReplyInvalid(
            client.server, f"the response is not from {expected}"
        )


def _authorization_url(
    client: McpClient, oauth: OAuthConfig, state: str, challenge: str
) -> str:
    parameters = {
        "response_type": "code",
        "client_id": client.client_id,
        "redirect_uri": client.redirect_uri,
        "state": state,
        "code_challenge": challenge,
        "code_challenge_method": "S256",
    }
    scopes = oauth.scopes or client.provider.scopes
    if scopes:
        parameters["scope"] = " ".join(scopes)
    if client.provider.resource is not None:
        parameters["resource"] = client.provider.resource
    if "offline_access" in scopes:
        # OpenID Connect issues a refresh token only with this scope.
        parameters["prompt"] = "consent"
    parts = urlsplit(client.provider.authorization_endpoint)
    query = "&".join(filter(None, (parts.query, urlencode(parameters))))
    return urlunsplit(parts._replace(query=query, fragment=""))
