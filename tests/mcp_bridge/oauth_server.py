"""A real authorization server and the MCP server it protects, made with the SDK.

    with serve_protected() as place:
        place.url                 # of the MCP server, for coulisse.yaml
        place.consent(url)        # what a user's browser does; returns the callback
        place.provider            # the provider's state, to inspect and to change

Its tool `whoami` returns the subject of the token. `place.provider.subject` is the
user who consents next.
"""

import asyncio
import contextlib
import secrets
import socket
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field

import httpx2
import uvicorn
from mcp.server.auth.middleware.auth_context import get_access_token
from mcp.server.auth.provider import (
    AccessToken,
    AuthorizationCode,
    AuthorizationParams,
    RefreshToken,
    construct_redirect_uri,
)
from mcp.server.auth.settings import (
    AuthSettings,
    ClientRegistrationOptions,
    RevocationOptions,
)
from mcp.server.mcpserver import MCPServer
from mcp.shared.auth import OAuthClientInformationFull, OAuthToken

from tests.conftest import serve_on


@dataclass
class MemoryProvider:
    """The state of an authorization server."""

    subject: str = "somebody"
    lifetime_seconds: int = 3600
    gives_refresh_tokens: bool = True
    clients: dict[str, OAuthClientInformationFull] = field(default_factory=dict)
    codes: dict[str, tuple[AuthorizationCode, str]] = field(default_factory=dict)
    access: dict[str, tuple[AccessToken, str]] = field(default_factory=dict)
    refreshable: dict[str, tuple[RefreshToken, str, str | None]] = field(
        default_factory=dict
    )
    refreshes: int = 0
    revoked: list[str] = field(default_factory=list)

    async def get_client(self, client_id):
        return self.clients.get(client_id)

    async def register_client(self, client_info):
        self.clients[client_info.client_id] = client_info

    async def authorize(self, client, params: AuthorizationParams):
        code = secrets.token_urlsafe(32)
        issued = AuthorizationCode(
            code=code,
            client_id=client.client_id,
            redirect_uri=params.redirect_uri,
            redirect_uri_provided_explicitly=params.redirect_uri_provided_explicitly,
            expires_at=time.time() + 60,
            scopes=params.scopes or ["user"],
            code_challenge=params.code_challenge,
            resource=params.resource,
        )
        self.codes[code] = issued, self.subject
        return construct_redirect_uri(
            str(params.redirect_uri), code=code, state=params.state
        )

    async def load_authorization_code(self, client, code):
        return self.codes.get(code, (None,))[0]

    def _mint(self, client, scopes, subject, resource=None):
        access, refresh = secrets.token_hex(16), secrets.token_hex(16)
        expires_at = int(time.time()) + self.lifetime_seconds
        self.access[access] = (
            AccessToken(
                token=access,
                client_id=client.client_id,
                scopes=scopes,
                expires_at=expires_at,
                resource=resource,
            ),
            subject,
        )
        if self.gives_refresh_tokens:
            token = RefreshToken(
                token=refresh, client_id=client.client_id, scopes=scopes
            )
            self.refreshable[refresh] = token, subject, resource
        return OAuthToken(
            access_token=access,
            refresh_token=refresh if self.gives_refresh_tokens else None,
            expires_in=self.lifetime_seconds,
            scope=" ".join(scopes),
        )

    async def exchange_authorization_code(self, client, code):
        _, subject = self.codes.pop(code.code)
        return self._mint(client, code.scopes, subject, code.resource)

    async def load_refresh_token(self, client, token):
        return self.refreshable.get(token, (None,))[0]

    async def exchange_refresh_token(self, client, token, scopes):
        self.refreshes += 1
        # A second use of a refresh token ends the sign-in.
        _, subject, resource = self.refreshable.pop(token.token)
        return self._mint(client, scopes or token.scopes, subject, resource)

    async def load_access_token(self, token):
        return self.access.get(token, (None,))[0]

    async def revoke_token(self, token):
        self.revoked.append(token.token)
        self.access.pop(token.token, None)
        self.refreshable.pop(token.token, None)

    def forget_access_tokens(self) -> None:
        """Have the MCP server answer every token with 401."""
        self.access.clear()

    def forget_refresh_tokens(self) -> None:
        self.refreshable.clear()

    def forget_clients(self) -> None:
        self.clients.clear()

    def subject_of(self, token: str) -> str:
        return self.access[token][1]


@dataclass
class ProtectedServer:
    """The address and state of the servers."""

    url: str
    provider: MemoryProvider

    def consent(self, url: str) -> str:
        """Give consent like a browser; return the redirect URL."""
        answer = httpx2.get(url, timeout=10, verify=False)
        assert answer.status_code == 302, (answer.status_code, answer.text)
        return answer.headers["location"]


@contextlib.contextmanager
def serve_protected() -> Iterator[ProtectedServer]:
    """Serve both from a thread, on a free port of this machine."""
    listener = socket.socket(proto=socket.IPPROTO_TCP)
    listener.bind(("127.0.0.1", 0))
    origin = f"http://127.0.0.1:{listener.getsockname()[1]}"
    provider = MemoryProvider()
    server = MCPServer(
        "protected",
        auth_server_provider=provider,
        auth=AuthSettings(
            issuer_url=origin,
            resource_server_url=f"{origin}/mcp",
            required_scopes=["user"],
            # A token for another server is none here (RFC 8707).
            validate_token_resource=True,
            client_registration_options=ClientRegistrationOptions(
                enabled=True, valid_scopes=["user"], default_scopes=["user"]
            ),
            revocation_options=RevocationOptions(enabled=True),
        ),
    )

    @server.tool()
    def whoami() -> str:
        """Return the name of the account."""
        token = get_access_token()
        return provider.subject_of(token.token) if token else "nobody"

    with _serving(server.streamable_http_app(host="127.0.0.1"), listener):
        yield ProtectedServer(f"{origin}/mcp", provider)


@contextlib.contextmanager
def _serving(application, listener: socket.socket) -> Iterator[None]:
    uvicorn_server = uvicorn.Server(
        uvicorn.Config(
            application, log_config=None, access_log=False, timeout_graceful_shutdown=1
        )
    )
    started = threading.Event()
    original = uvicorn_server.startup

    async def startup(sockets=None) -> None:
        await original(sockets=sockets)
        started.set()

    uvicorn_server.startup = startup
    thread = threading.Thread(
        target=lambda: asyncio.run(serve_on(listener, uvicorn_server)),
        daemon=True,
    )
    thread.start()
    assert started.wait(20), "the server did not start"
    yield
    uvicorn_server.should_exit = True
    thread.join(10)
    listener.close()
