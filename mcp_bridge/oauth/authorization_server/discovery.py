"""Discover the authorization server of a remote MCP server.

The steps: the server's 401 may name its metadata, which otherwise are at a well-known
URL (RFC 9728). They name an issuer, whose metadata (RFC 8414, or OpenID Connect's) have
the endpoints. A server without metadata is its own issuer.
"""

import re
from contextlib import suppress
from typing import TypeVar

from mcp.client.auth.utils import (
    build_oauth_authorization_server_metadata_discovery_urls as issuer_metadata_urls,
)
from mcp.client.auth.utils import (
    build_protected_resource_metadata_discovery_urls as resource_metadata_urls,
)
from mcp.client.auth.utils import get_client_metadata_scopes, issuers_match
from mcp.shared.auth import OAuthMetadata, ProtectedResourceMetadata
from mcp.shared.auth_utils import check_resource_allowed, resource_url_from_server_url
from pydantic import BaseModel, ValidationError

from mcp_bridge.oauth.authorization_server.http_requests import (
    OAuthHttpClient,
    OAuthResponse,
    check_secret_url,
)
from mcp_bridge.oauth.errors import AuthServerReplyInvalid
from mcp_bridge.oauth.types import AuthorizationServer

SUPPORTED_GRANTS = ["authorization_code", "refresh_token"]
MAX_ISSUER_LENGTH = 512
ENDPOINTS = (
    "authorization_endpoint",
    "token_endpoint",
    "registration_endpoint",
    "revocation_endpoint",
)
CHALLENGE = re.compile(r'(?<![\w-])(resource_metadata|scope)=(?:"([^"]*)"|([^\s,"]+))')
"""A parameter of `WWW-Authenticate`."""

M = TypeVar("M", bound=BaseModel)


async def discover(
    http: OAuthHttpClient, server: str, url: str, *, method: str
) -> AuthorizationServer:
    """Return the authorization server for the MCP server at `url`.

    `method` is the method of the probe: POST, or GET for SSE. Raises `SignInFailed` and
    its subclasses.
    """
    refusal = await http.probe(server, url, method=method)
    challenge = _parse_challenge(refusal)
    resource = await _resource_metadata(
        http, server, url, challenge.get("resource_metadata")
    )
    if resource is None:
        issuers = [_origin(url)]
    else:
        issuers = [str(issuer) for issuer in resource.authorization_servers]
    for issuer in issuers:
        metadata = await _issuer_metadata(http, server, url, issuer)
        if metadata is not None:
            return _build_authorization_server(
                server, url, resource, metadata, challenge.get("scope")
            )
    raise AuthServerReplyInvalid(
        server,
        f"its sign-in cannot be discovered: {', '.join(issuers)} publishes no "
        "OAuth metadata; set oauth with mode: static, or oauth: false if it has "
        "no sign-in",
    )


def _parse_challenge(refusal: OAuthResponse) -> dict[str, str]:
    """Return `resource_metadata` and `scope` of a 401 that has them."""
    if refusal.status != 401:
        return {}
    header = refusal.headers.get("WWW-Authenticate", "")
    found = CHALLENGE.findall(header)
    return {name: quoted or plain for name, quoted, plain in found if quoted or plain}


async def _resource_metadata(
    http: OAuthHttpClient, server: str, url: str, metadata_url: str | None
) -> ProtectedResourceMetadata | None:
    """Return the server's metadata (RFC 9728), or None if it publishes none."""
    urls = resource_metadata_urls(metadata_url, url)
    source, found = await _read_first(
        http, server, urls, ProtectedResourceMetadata, near=url
    )
    if found is not None and not check_resource_allowed(
        resource_url_from_server_url(url), str(found.resource)
    ):
        raise AuthServerReplyInvalid(
            server, f"{source} describes {found.resource}, not {url}; check the url"
        )
    return found


async def _issuer_metadata(
    http: OAuthHttpClient, server: str, url: str, issuer: str
) -> OAuthMetadata | None:
    """Return an issuer's metadata (RFC 8414), or None if it publishes none."""
    urls = issuer_metadata_urls(issuer, url)
    source, found = await _read_first(http, server, urls, OAuthMetadata, near=url)
    # The publisher of one host must not speak for another issuer (RFC 8414 §3.3).
    if found is not None and not issuers_match(str(found.issuer), issuer):
        raise AuthServerReplyInvalid(
            server, f"{source} names the issuer {found.issuer}, not {issuer}"
        )
    return found


async def _read_first(
    http: OAuthHttpClient, server: str, urls: list[str], shape: type[M], *, near: str
) -> tuple[str, M | None]:
    """Return the first valid document, and its URL; raises for a failing server."""
    for url in urls:
        check_secret_url(server, url, near=near)
        response = await http.get(server, url)
        if response.status >= 500:
            raise AuthServerReplyInvalid(
                server, f"{response.url} answered with status {response.status}"
            )
        with suppress(ValidationError):
            document = response.json() if response.status == 200 else {}
            return url, shape.model_validate(document)
    return "", None


def _build_authorization_server(
    server: str,
    url: str,
    resource: ProtectedResourceMetadata | None,
    metadata: OAuthMetadata,
    challenge_scope: str | None,
) -> AuthorizationServer:
    challenges = metadata.code_challenge_methods_supported
    if challenges is not None and "S256" not in challenges:
        raise AuthServerReplyInvalid(
            server, f"{metadata.issuer} does not support PKCE with S256"
        )
    found = {name: getattr(metadata, name) for name in ENDPOINTS}
    endpoints = {name: str(endpoint) for name, endpoint in found.items() if endpoint}
    for document_url in (str(metadata.issuer), *endpoints.values()):
        check_secret_url(server, document_url, near=url)
    if len(str(metadata.issuer)) > MAX_ISSUER_LENGTH:
        raise AuthServerReplyInvalid(
            server, f"its issuer is longer than {MAX_ISSUER_LENGTH} characters"
        )
    scopes = get_client_metadata_scopes(
        challenge_scope, resource, metadata, SUPPORTED_GRANTS
    )
    methods = metadata.token_endpoint_auth_methods_supported
    has_issuer = metadata.authorization_response_iss_parameter_supported
    described = resource and str(resource.resource)
    return AuthorizationServer.model_validate(
        {
            **endpoints,
            "issuer": str(metadata.issuer),
            **({} if methods is None else {"auth_methods": methods}),
            "scopes": (scopes or "").split(),
            "resource": described or resource_url_from_server_url(url),
            "has_issuer_parameter": bool(has_issuer),
        }
    )


def _origin(url: str) -> str:
    return url[: url.index("/", url.index("//") + 2)] if url.count("/") > 2 else url
