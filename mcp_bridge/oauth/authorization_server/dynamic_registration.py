"""Dynamic client registration with a provider (RFC 7591)."""

from datetime import UTC, datetime
from urllib.parse import urlsplit

from mcp.shared.auth import OAuthClientInformationFull
from pydantic import ValidationError

from core.network.loopback import is_loopback
from mcp_bridge.oauth.authorization_server.http_requests import OAuthHttpClient
from mcp_bridge.oauth.authorization_server.token_endpoint import parse_error
from mcp_bridge.oauth.errors import AuthServerRefused, AuthServerReplyInvalid
from mcp_bridge.oauth.tables import McpClient
from mcp_bridge.oauth.types import AuthorizationServer

METHODS = ("client_secret_post", "client_secret_basic", "none")
"""The supported client authentication methods, in order of preference."""


async def register_client(
    http: OAuthHttpClient,
    server: str,
    provider: AuthorizationServer,
    *,
    resource: str,
    redirect_uri: str,
    now: datetime,
) -> McpClient:
    """Register this server with a provider; raises `SignInFailed`."""
    if provider.registration_endpoint is None:
        raise AuthServerReplyInvalid(
            server,
            f"{provider.issuer} does not support dynamic client registration; register "
            "a client there and set oauth with mode: static",
        )
    method = _choose_auth_method(server, provider)
    request = _registration_request(provider, redirect_uri, method)
    url = provider.registration_endpoint
    registered = await _post_registration(http, server, provider, url, request)
    until = registered.client_secret_expires_at
    client = McpClient(
        server=server,
        resource=resource,
        issuer=provider.issuer,
        metadata=provider.model_dump(),
        client_id=registered.client_id,
        auth_method=_assigned_auth_method(server, provider, registered, method),
        redirect_uri=redirect_uri,
        discovered_at=now,
        verified_at=now,
        secret_expires_at=datetime.fromtimestamp(until, UTC) if until else None,
    )
    client.secret = registered.client_secret
    return client


def _choose_auth_method(server: str, provider: AuthorizationServer) -> str:
    method = next((m for m in METHODS if m in provider.auth_methods), None)
    if method is None:
        raise AuthServerReplyInvalid(
            server,
            f"{provider.issuer} supports none of {', '.join(METHODS)}; register a "
            "client there and set oauth with mode: static",
        )
    return method


def _assigned_auth_method(
    server: str,
    provider: AuthorizationServer,
    registered: OAuthClientInformationFull,
    requested: str,
) -> str:
    if registered.client_secret is None:
        return "none"
    assigned = registered.token_endpoint_auth_method or requested
    if assigned not in METHODS:
        raise AuthServerReplyInvalid(
            server,
            f"{provider.issuer} requires '{assigned}' at its token endpoint, which is "
            "not supported",
        )
    return assigned


async def _post_registration(
    http: OAuthHttpClient,
    server: str,
    provider: AuthorizationServer,
    url: str,
    request: dict[str, object],
) -> OAuthClientInformationFull:
    response = await http.post(server, url, json=request)
    if response.status not in (200, 201):
        error, description = parse_error(response)
        raise AuthServerRefused(
            server,
            f"{provider.issuer} refused the registration with status "
            f"{response.status}: {description}",
            error=error,
            description=description,
        )
    try:
        return OAuthClientInformationFull.model_validate(response.json())
    except ValidationError as exc:
        raise AuthServerReplyInvalid(
            server, f"{provider.issuer} sent an invalid registration response"
        ) from exc


def _registration_request(
    provider: AuthorizationServer, redirect_uri: str, method: str
) -> dict[str, object]:
    is_local = is_loopback(urlsplit(redirect_uri).hostname or "")
    request: dict[str, object] = {
        "client_name": "Coulisse",
        "redirect_uris": [redirect_uri],
        "grant_types": ["authorization_code", "refresh_token"],
        "response_types": ["code"],
        "token_endpoint_auth_method": method,
        # OpenID Connect: plain http is for programs on the user's own machine.
        "application_type": "native" if is_local else "web",
    }
    if provider.scopes:
        request["scope"] = " ".join(provider.scopes)
    return request
