"""The `mcp:` map of the YAML, and the address the server is reached at."""

import hashlib
import re
from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    SecretStr,
    model_validator,
)

from config.config import SERVER
from config.sections import Config, Problem, Section
from config.validation.http_headers import Headers

TransportKind = Literal["stdio", "http", "sse"]

SERVER_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")

STATIC_FIELDS = (
    *("authorization_url", "token_url", "client_id", "client_secret"),
    "redirect_uri",
)
"""What a sign-in without discovery cannot do without, in the reader's order."""

CHILD_FIELDS = ("args", "env", "cwd")


def _web_address(value: str) -> str:
    parts = urlsplit(value)
    if (
        parts.scheme not in ("http", "https")
        or not parts.hostname
        or re.search(r"\s", value)
    ):
        raise ValueError(
            "must be an http:// or https:// address, such as http://localhost:8080/mcp"
        )
    if "@" in parts.netloc:
        raise ValueError("must not carry a user name or password")
    if parts.fragment:
        raise ValueError("must not have a part after #")
    return value


WebAddress = Annotated[str, AfterValidator(_web_address)]
Text = Annotated[str, Field(min_length=1)]


class OAuthConfig(BaseModel):
    """How each user signs in to a server."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)

    mode: Literal["discover", "static"] = Field(
        "discover",
        description="`discover` finds the sign-in's addresses and registers with it; "
        "`static` uses an app you registered there yourself.",
    )
    scopes: tuple[str, ...] = Field(
        (),
        description="What to ask each user's consent for. Unset with `discover`: what "
        "the server says it supports.",
    )
    authorization_url: WebAddress | None = Field(
        None, description="Where users consent. With `static` only."
    )
    token_url: WebAddress | None = Field(
        None, description="Where codes become tokens. With `static` only."
    )
    client_id: Text | None = Field(
        None, description="The id of your app. With `static` only."
    )
    client_secret: SecretStr | None = Field(
        None, description="The secret of your app. With `static` only."
    )
    redirect_uri: WebAddress | None = Field(
        None,
        description="Where users come back to, as registered: it ends in "
        "`/mcp/{server}/oauth/callback`. With `static` only.",
    )

    @model_validator(mode="after")
    def _check_mode(self) -> "OAuthConfig":
        given = [name for name in STATIC_FIELDS if getattr(self, name) is not None]
        if self.mode == "discover" and given:
            raise ValueError(
                f"has {_join_names(given)}, which only mode: static reads; add "
                "mode: static, or remove it"
            )
        secret = self.client_secret
        if secret is not None and not secret.get_secret_value():
            given.remove("client_secret")
        missing = [name for name in STATIC_FIELDS if name not in given]
        if self.mode == "static" and missing:
            raise ValueError(f"needs {_join_names(missing)} with mode: static")
        return self


def _read_oauth(value: Any) -> Any:
    """Return `true` as what it is when nothing is set."""
    return None if value is True else value


class ToolServerConfig(BaseModel):
    """One tool server: remote with a `url`, a child process with a `command`."""

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        # Values of env and secrets are among the input.
        hide_input_in_errors=True,
    )

    transport: TransportKind | None = Field(
        None,
        description="How to talk to it. Unset: `stdio` for a `command`; `sse` for a "
        "`url` with `sse` as a part of its path, else `http`.",
    )
    url: WebAddress | None = Field(
        None, description="Where a remote server is, such as https://example.com/mcp."
    )
    headers: Headers = Field(
        default_factory=dict,
        description="Headers to send to a `url` with each request, such as the "
        "Authorization of a server whose key is the same for all users.",
    )
    command: Text | None = Field(
        None, description="What starts a server on this machine: `uvx`, `python`, …"
    )
    args: tuple[str, ...] = Field((), description="Arguments of the command.")
    env: dict[str, SecretStr] = Field(
        default_factory=dict,
        description="Environment variables of the command, besides HOME, PATH and "
        "the like; it does not see the server's own.",
    )
    cwd: Text | None = Field(
        None,
        description="Where the command runs, seen from the YAML's folder, which it "
        "is unless given.",
    )
    oauth: Annotated[
        OAuthConfig | Literal[False] | None,
        BeforeValidator(_read_oauth, json_schema_input_type=OAuthConfig | bool),
    ] = Field(
        None,
        description="How each user signs in. A `url` is signed in to by discovery "
        "unless given; `false` for a server without sign-in; a map to set more.",
    )
    timeout_seconds: float = Field(
        60, gt=0, le=3600, description="Most a call of one of its tools may take."
    )

    @property
    def kind(self) -> TransportKind:
        """How to talk to it, given or inferred."""
        if self.transport is not None:
            return self.transport
        if self.url is None:
            return "stdio"
        return "sse" if "sse" in urlsplit(self.url).path.split("/") else "http"

    @property
    def sign_in(self) -> OAuthConfig | None:
        """How each user signs in; None for a server without sign-in."""
        if isinstance(self.oauth, OAuthConfig):
            return self.oauth
        return None if self.oauth is False or self.url is None else OAuthConfig()

    @cached_property
    def digest(self) -> str:
        """Tells one configuration of a server from another, secrets included."""
        hidden = [*self.env.items(), *self.headers.items()]
        secrets = [(name, value.get_secret_value()) for name, value in hidden]
        plain = self.model_dump(exclude={"env", "headers", "oauth"})
        text = repr((plain, len(self.env), secrets, self.sign_in))
        if self.sign_in is not None and self.sign_in.client_secret is not None:
            text += self.sign_in.client_secret.get_secret_value()
        return hashlib.sha256(text.encode()).hexdigest()

    @model_validator(mode="after")
    def _check_transport(self) -> "ToolServerConfig":
        if self.url is None and self.command is None:
            raise ValueError(
                "has neither url: nor command:; give the address of a remote server "
                "or the command that starts one here"
            )
        if self.url is not None and self.command is not None:
            raise ValueError(
                "has both url: and command:; keep the one it is reached by"
            )
        if self.transport is not None:
            _check_transport(self)
        if self.url is not None:
            _check_remote(self)
        elif self.headers:
            raise ValueError("has headers, which only a url: is sent; use env")
        elif isinstance(self.oauth, OAuthConfig) and self.oauth.mode == "discover":
            raise ValueError(
                "has a command:, whose sign-in cannot be discovered; use oauth with "
                "mode: static, or remove oauth"
            )
        return self


def _check_transport(server: ToolServerConfig) -> None:
    if server.transport == "stdio" and server.command is None:
        raise ValueError("has transport: stdio, which needs a command:, not a url:")
    if server.transport != "stdio" and server.url is None:
        raise ValueError(
            f"has transport: {server.transport}, which needs a url:, not a command:"
        )


def _check_remote(server: ToolServerConfig) -> None:
    given = [name for name in CHILD_FIELDS if name in server.model_fields_set]
    if given:
        raise ValueError(
            f"has {_join_names(given)}, which only a command: reads; remove it"
        )
    names = {name.lower() for name in server.headers}
    if "authorization" in names and server.sign_in is not None:
        raise ValueError(
            "has a header Authorization beside each user's own sign-in; add oauth: "
            "false if the header is for all users, or remove it"
        )


def _join_names(names: Iterable[str]) -> str:
    return ", ".join(names)


def _check_servers(
    servers: dict[str, ToolServerConfig], config: Config
) -> Iterable[Problem]:
    """Refuse names that do not fit into tools' names, and redirects nobody hears."""
    for name, server in servers.items():
        if not SERVER_NAME.fullmatch(name):
            yield Problem(
                ("mcp", name),
                f"mcp server '{name}' must be named with letters, digits, _ and - "
                "only, at most 64 of them",
                "coulisse.E501",
            )
        redirect = server.sign_in.redirect_uri if server.sign_in else None
        path = f"/mcp/{name}/oauth/callback"
        if redirect is not None and not urlsplit(redirect).path.endswith(path):
            yield Problem(
                ("mcp", name, "oauth", "redirect_uri"),
                f"mcp server '{name}': 'oauth.redirect_uri' must end in {path}, where "
                "this server waits for users who come back",
                "coulisse.E502",
            )


def _clean_base_url(value: str) -> str:
    if urlsplit(value).query:
        raise ValueError("must be an address without a query")
    return value.rstrip("/")


def public_base_url(config: Config) -> str:
    """Return the address clients and browsers reach the server at, without a `/`."""
    given = config.get(PUBLIC_BASE_URL)
    return given or f"http://localhost:{config.get(SERVER).port}"


def list_commands(servers: Mapping[str, ToolServerConfig]) -> dict[str, Any]:
    """Return what is run on this machine, by the server it is for."""
    return {
        name: (server.command, server.args, server.env, server.cwd)
        for name, server in servers.items()
        if server.command is not None
    }


MCP: Section[dict[str, ToolServerConfig]] = Section(
    key="mcp",
    shape=dict[str, ToolServerConfig],
    default=dict,
    noun="mcp server",
    check=_check_servers,
    file_only=list_commands,
)
PUBLIC_BASE_URL: Section[str | None] = Section(
    key="public_base_url",
    shape=Annotated[
        WebAddress,
        AfterValidator(_clean_base_url),
        Field(
            description="The address the server is reached at from outside, such as "
            "https://agents.example.com; links for users begin with it. Unset: "
            "http://localhost with the server's port.",
        ),
    ],
    default=lambda: None,
)
