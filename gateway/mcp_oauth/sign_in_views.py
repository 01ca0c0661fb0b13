"""`/mcp/{server}/…`: a user connects an MCP server in a browser."""

import logging
import secrets
from collections.abc import Callable
from functools import partial
from urllib.parse import urlsplit

from django.http import (
    HttpRequest,
    HttpResponse,
    HttpResponseNotAllowed,
    HttpResponseRedirect,
)

from access.audit import audit_log, request_audit
from access.audit.audit_events import Actor, AuditEvent
from access.authentication.config import AUTH
from access.authentication.login_throttle import CONSUMER_THROTTLE
from access.authentication.secret_digests import SecretDigest
from access.users import identity, request_user
from access.users.caller import ANONYMOUS
from access.users.request_user import GivenName
from api_base.json_responses import json_response
from config import live
from config.sections import Config
from core.errors import CoulisseError
from core.ids import UserId
from gateway import errors
from gateway.auth import authentication
from gateway.html_pages import HtmlPage, set_no_store
from gateway.mcp_oauth.oauth_errors import error_page_of
from mcp_bridge.oauth.errors import SignInUnsupported
from mcp_bridge.oauth.flow import (
    AuthorizationFlow,
    AuthorizationRedirect,
    AuthorizationResponse,
)
from mcp_bridge.oauth.state_tokens import LIFETIME

logger = logging.getLogger(__name__)

SIGN_IN_FLOW = AuthorizationFlow()

LINK_QUERY = ("user_id", request_user.USER_PARAMETER)
"""Both parameters name the user of a new link."""


class ProviderRedirect(HttpResponseRedirect):
    """Redirects a user to a provider."""

    allowed_schemes = ["http", "https"]


async def connect(request: HttpRequest, server: str) -> HttpResponse:
    """Redirect the opener of a link to the provider; a HEAD request does not use it
    up."""
    if request.method not in ("GET", "HEAD"):
        return HttpResponseNotAllowed(["GET", "HEAD"])
    token = request.GET.get("token", "")
    try:
        config = live.current()
        if request.method == "HEAD":
            await SIGN_IN_FLOW.read_link(config, server, token)
            return HtmlPage("mcp/waiting.html", server=server)
        browser = secrets.token_urlsafe(32)
        named = await _find_named_users(config, request)
        redirect = await SIGN_IN_FLOW.use_link(
            config, server, token, browser=browser, user_ids=named
        )
    except CoulisseError as exc:
        return error_response(server, exc, at="connect")
    response = ProviderRedirect(redirect.url)
    set_no_store(response)
    set_browser_cookie(response, redirect, browser)
    return response


async def handle_callback(request: HttpRequest, server: str) -> HttpResponse:
    """Complete the sign-in with the provider's answer, and show the result."""
    if request.method == "HEAD":
        return HtmlPage("mcp/waiting.html", server=server)
    if request.method != "GET":
        return HttpResponseNotAllowed(["GET", "HEAD"])
    parameters = request.GET
    authorization = AuthorizationResponse(
        state=parameters.get("state", ""),
        code=parameters.get("code"),
        error=parameters.get("error"),
        description=parameters.get("error_description"),
        issuer=parameters.get("iss"),
    )

    def audit_for(user_id: UserId) -> Callable[[], None]:
        # The result is shown only to the browser that started the sign-in.
        actor = Actor(f"user:{user_id}", request_audit.client_address(request))
        details = {"user": str(user_id)}
        event = AuditEvent("mcp.connect", actor, f"mcp server {server}", details)
        return partial(audit_log.write, event)

    try:
        await SIGN_IN_FLOW.finish(
            live.current(),
            server,
            authorization,
            cookies=request.COOKIES,
            audit_for=audit_for,
        )
    except CoulisseError as exc:
        return error_response(server, exc, at="callback")
    return HtmlPage("mcp/connected.html", server=server)


async def create_link(request: HttpRequest, server: str) -> HttpResponse:
    """Return a new sign-in link for one user, to the application's backend."""
    if request.method != "POST":
        return HttpResponseNotAllowed(["POST"])
    try:
        config = live.current()
        refusal = _check_secret(config, request)
        if refusal is not None:
            return refusal
        request_user.refuse_unknown(request, LINK_QUERY)
        user_id = request_user.single_user(
            config, ANONYMOUS, _names_in_request(config, request, *LINK_QUERY)
        )
        if user_id is None:
            return _unprocessable(
                "user_id is required: it names the user who connects the server",
                param="user_id",
                code="user_required",
            )
        link = await SIGN_IN_FLOW.begin(config, server, user_id, browser=None)
    except SignInUnsupported as exc:
        return _unprocessable(exc.message, param="server", code=exc.code)
    except CoulisseError as exc:
        return errors.on_domain_error(request, exc)
    response = json_response({"url": link.url})
    set_no_store(response)
    return response


def _check_secret(config: Config, request: HttpRequest) -> HttpResponse | None:
    """Return the refusal of a request without the secret, or None."""
    secret = config.get(AUTH).mcp_consumer_secret
    if secret is None:
        return errors.object_response(
            503,
            "Links cannot be created: this server has no consumer secret",
            "service_unavailable",
            code="mcp_consumer_secret_unset",
        )
    scheme, _, token = request.headers.get("Authorization", "").partition(" ")
    if scheme.lower() == "bearer" and _matches_secret(secret, token.strip(), request):
        return None
    response = errors.object_response(
        401,
        "The consumer secret is missing or wrong: send it as a bearer token",
        "invalid_request_error",
        code="invalid_api_key",
    )
    response.headers["WWW-Authenticate"] = "Bearer"
    return response


def _matches_secret(secret: SecretDigest, token: str, request: HttpRequest) -> bool:
    """Return whether a token is the secret; raises `LoginDelayed` after wrong ones."""
    address = request.META.get("REMOTE_ADDR", "")
    is_valid = secret.matches(token)
    if is_valid and CONSUMER_THROTTLE.is_known_address(address, None):
        return True
    attempt = CONSUMER_THROTTLE.begin(address, None)
    if is_valid:
        CONSUMER_THROTTLE.succeed(attempt, None)
    else:
        CONSUMER_THROTTLE.fail(attempt)
    return is_valid


def _unprocessable(message: str, *, param: str, code: str | None) -> HttpResponse:
    """Return the response to a valid request that cannot be fulfilled."""
    return errors.object_response(
        422, message, "invalid_request_error", param=param, code=code
    )


async def _find_named_users(config: Config, request: HttpRequest) -> set[UserId]:
    """Return the users that the request names, if it names any.

    The link is a sufficient credential, and most browsers send no other. A proxy may
    name its users, and a login on this server names one: without this check, another
    user's link would connect this user's account for that other user.
    """
    names = _names_in_request(config, request, request_user.USER_PARAMETER)
    caller = await authentication.authenticate_if_given(request)
    owner = ANONYMOUS if caller.is_bound else caller
    users = {identity.resolve_user(config, owner, given.name) for given in names}
    if caller.principal is None or not caller.is_bound:
        return users
    principal = identity.derive_user_id(caller.principal)
    return {principal} if caller.client_users == "ignore" else {*users, principal}


def _names_in_request(
    config: Config, request: HttpRequest, *parameters: str
) -> list[GivenName]:
    """Return the names of users in the headers and in these query parameters."""
    names = request_user.header_names(request, config)
    for parameter in parameters:
        values = request.GET.getlist(parameter)
        names += [GivenName(value, f"query.{parameter}") for value in values]
    return names


def set_browser_cookie(
    response: HttpResponse, redirect: AuthorizationRedirect, browser: str
) -> None:
    """Set the cookie that the callback requires."""
    callback_url = urlsplit(redirect.redirect_uri)
    response.set_cookie(
        redirect.cookie,
        browser,
        max_age=int(LIFETIME.total_seconds()),
        path=callback_url.path,
        secure=callback_url.scheme == "https",
        httponly=True,
        samesite="Lax",
    )


def error_response(server: str, exc: CoulisseError, *, at: str) -> HtmlPage:
    """Return the error page, with its remedy."""
    page = error_page_of(exc, is_link_used=at == "callback")
    log = logger.warning if page.status >= 500 else logger.info
    log("the sign-in to mcp server %r failed: %s", server, exc)
    # The reference requires 400 for an invalid state, whatever the reason.
    is_state_invalid = at == "callback" and page.status == 410
    return HtmlPage(
        "mcp/failed.html",
        status=400 if is_state_invalid else page.status,
        server=server,
        title=page.title,
        remedy=page.remedy,
        detail=page.detail,
    )
