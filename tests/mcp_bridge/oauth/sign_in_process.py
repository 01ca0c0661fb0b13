"""One process that signs users in: links, consent, callbacks."""

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

from django.test import override_settings

from config.sections import Config
from core.ids import UserId
from mcp_bridge.config import MCP
from mcp_bridge.oauth.authorization_server.http_requests import OAuthHttpClient
from mcp_bridge.oauth.errors import SignInFailed
from mcp_bridge.oauth.flow import (
    AuthorizationFlow,
    AuthorizationRedirect,
    AuthorizationResponse,
)
from mcp_bridge.oauth.token_manager import TokenManager
from tests.mcp_bridge.conftest import TEST_SECONDS

BASE = "http://localhost:8421"


def configured(**servers: object) -> Config:
    """Return a configuration with these servers under `mcp:`."""
    return Config(Path("coulisse.yaml"), {"mcp": MCP.adapter.validate_python(servers)})


def new_user() -> UserId:
    return UserId(uuid.uuid4())


class Clock:
    """A clock that tests can advance."""

    def __init__(self) -> None:
        self.ahead = timedelta()

    def __call__(self) -> datetime:
        return datetime.now(UTC) + self.ahead

    def forward(self, **by: float) -> None:
        self.ahead += timedelta(**by)


@contextmanager
def keys_in(folder: Path) -> Iterator[Path]:
    """Store the keys in a folder of the test."""
    path = folder / "secrets.env"
    with override_settings(COULISSE_SECRETS_FILE=path):
        yield path


class SignInProcess:
    """One process that signs users in, with a separate clock."""

    def __init__(
        self,
        config: Config,
        *,
        seconds: float = TEST_SECONDS,
        clock: Clock | None = None,
    ) -> None:
        self.config = config
        self.clock = clock or Clock()
        http = OAuthHttpClient(seconds=seconds)
        self.token_manager = TokenManager(http=http, clock=self.clock)
        self.flow = AuthorizationFlow(http=http, clock=self.clock)

    def link_token(self, server: str, user: UserId) -> str:
        link = self.token_manager.link(self.config, server, user)
        return parse_qs(urlsplit(link).query)["token"][0]

    async def open_link(self, server: str, user: UserId) -> AuthorizationRedirect:
        """Open a new link."""
        token = self.link_token(server, user)
        return await self.flow.use_link(self.config, server, token, browser="browser")

    async def complete_sign_in(
        self,
        server: str,
        redirect: AuthorizationRedirect,
        *,
        cookies: dict[str, str] | None = None,
        **response: str | None,
    ) -> None:
        """Complete the sign-in in the same browser, with a code by default."""
        given = {
            "state": authorization_parameters(redirect)["state"],
            "code": "code-1",
            **response,
        }
        await self.flow.finish(
            self.config,
            server,
            AuthorizationResponse(**given),
            cookies={redirect.cookie: "browser"} if cookies is None else cookies,
        )

    async def connect(self, server: str, user: UserId) -> AuthorizationRedirect:
        """Open a new link and complete the sign-in."""
        redirect = await self.open_link(server, user)
        await self.complete_sign_in(server, redirect)
        return redirect

    async def token(self, server: str, user: UserId) -> str | SignInFailed | None:
        """Return the user's token, or the error in its place."""
        found = await self.token_manager.tokens(self.config, [server], user)
        return found.get(server)


def authorization_parameters(redirect: AuthorizationRedirect) -> dict[str, str]:
    """Return the parameters of the authorization URL."""
    query = parse_qs(urlsplit(redirect.url).query)
    return {name: value for name, (value,) in query.items()}


def parse_callback(url: str) -> AuthorizationResponse:
    """Return the parameters of the callback URL."""
    query = {name: value for name, (value,) in parse_qs(urlsplit(url).query).items()}
    return AuthorizationResponse(
        state=query["state"],
        code=query.get("code"),
        error=query.get("error"),
        description=query.get("error_description"),
        issuer=query.get("iss"),
    )
