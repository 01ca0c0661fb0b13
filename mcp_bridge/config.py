"""The `mcp:` map of the YAML, and the public address of this server."""

import hashlib
import os
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

from config.config import PUBLIC_BASE_URL, SERVER
from config.sections import Config, Problem, Section
from config.validation.http_values import Headers, WebAddress

TransportKind = Literal["stdio", "http", "sse"]

SERVER_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")

STATIC_FIELDS = (
    "authorization_url",
    "token_url",
    "client_id",
    "client_secret",
    "redirect_uri",
)
"""The fields that a sign-in without discovery requires, in reading order."""

CHILD_FIELDS = ("args", "env", "env_from", "cwd")


Text = Annotated[str, Field(min_length=1)]


def _check_variable(name: str) -> str:
    if name not in os.environ:
        raise ValueError(
            f"names the environment variable '{name}', which is not set; set it where "
            "Coulisse starts, or remove it from the list"
        )
    return name


Variable = Annotated[str, AfterValidator(_check_variable)]


class OAuthConfig(BaseModel):
    """The sign-in of users to a server."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)

    mode: Literal["discover", "static"] = Field(
        "discover",
        description="`discover` finds the authorization server and registers with it; "
        "`static` uses a client that you registered there.",
    )
    scopes: tuple[str, ...] = Field(
        (),
        description="The scopes to request. Default with `discover`: the scopes that "
        "the server advertises.",
    )
    authorization_url: WebAddress | None = Field(
        None, description="The authorization endpoint. Only with `static`."
    )
    token_url: WebAddress | None = Field(
        None, description="The token endpoint. Only with `static`."
    )
    client_id: Text | None = Field(
        None, description="The id of your client. Only with `static`."
    )
    client_secret: SecretStr | None = Field(
        None, description="The secret of your client. Only with `static`."
    )
    redirect_uri: WebAddress | None = Field(
        None,
        description="The registered redirect URI, ending in "
        "`/mcp/{server}/oauth/callback`. Only with `static`.",
    )

    @model_validator(mode="after")
    def _check_mode(self) -> "OAuthConfig":
        given = [name for name in STATIC_FIELDS if getattr(self, name) is not None]
        if self.mode == "discover" and given:
            raise ValueError(
                f"has {', '.join(given)}, which only mode: static uses; add "
                "mode: static, or remove it"
            )
        secret = self.client_secret
        if secret is not None and not secret.get_secret_value():
            given.remove("client_secret")
        missing = [name for name in STATIC_FIELDS if name not in given]
        if self.mode == "static" and missing:
            raise ValueError(f"needs {', '.join(missing)} with mode: static")
        return self


class ToolServerConfig(BaseModel):
    """An MCP server: remote with a `url`, a child process with a `command`."""

    # The input contains secrets.
    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)

    transport: TransportKind | None = Field(
        None,
        description="The transport. Default: `stdio` for a `command`; `sse` for a "
        "`url` with `sse` as a segment of its path, else `http`.",
    )
    url: WebAddress | None = Field(
        None,
        description="The address of a remote server, such as https://example.com/mcp.",
    )
    headers: Headers = Field(
        default_factory=dict,
        description="Headers of each request to a `url`, such as the Authorization "
        "of a server with the same key for all users.",
    )
    command: Text | None = Field(
        None,
        description="The command that starts a server on this machine: `uvx`, "
        "`python`, …",
    )
    args: tuple[str, ...] = Field((), description="Arguments of the command.")
    env: dict[str, SecretStr] = Field(
        default_factory=dict,
        description="Environment variables of the command, besides HOME, PATH and "
        "similar ones. It does not inherit the environment of Coulisse.",
    )
    env_from: tuple[Variable, ...] = Field(
        (),
        description="Names of variables that the command inherits from the environment "
        "of Coulisse. Each must be set.",
    )
    cwd: Text | None = Field(
        None,
        description="The working directory of the command, relative to the folder of "
        "the YAML. Default: that folder.",
    )
    oauth: Annotated[
        OAuthConfig | Literal[False] | None,
        # `true` is the default.
        BeforeValidator(
            lambda value: None if value is True else value,
            json_schema_input_type=OAuthConfig | bool,
        ),
    ] = Field(
        None,
        description="How each user signs in. Default for a `url`: discovery. `false` "
        "for a server without sign-in; a map for more settings.",
    )
    timeout_seconds: float = Field(
        60, gt=0, le=3600, description="The maximum duration of a tool call."
    )

    @property
    def kind(self) -> TransportKind:
        """The transport, set or inferred."""
        if self.transport is not None:
            return self.transport
        if self.url is None:
            return "stdio"
        return "sse" if "sse" in urlsplit(self.url).path.split("/") else "http"

    @property
    def sign_in(self) -> OAuthConfig | None:
        """The sign-in of users; None for a server without sign-in."""
        if isinstance(self.oauth, OAuthConfig):
            return self.oauth
        return None if self.oauth is False or self.url is None else OAuthConfig()

    @cached_property
    def digest(self) -> str:
        """A digest of the configuration, including secrets."""
        secret_items = [*self.env.items(), *self.headers.items()]
        secrets = [(name, value.get_secret_value()) for name, value in secret_items]
        plain = self.model_dump(exclude={"env", "headers", "oauth"})
        text = repr((plain, len(self.env), secrets, self.sign_in))
        if self.sign_in is not None and self.sign_in.client_secret is not None:
            text += self.sign_in.client_secret.get_secret_value()
        return hashlib.sha256(text.encode()).hexdigest()

    @model_validator(mode="after")
    def _check_transport(self) -> "ToolServerConfig":
        if self.url is None and self.command is None:
            raise ValueError(
                "has neither url: nor command:; set the address of a remote server "
                "or the command that starts one"
            )
        if self.url is not None and self.command is not None:
            raise ValueError("has both url: and command:; remove one of them")
        if self.transport is not None:
            _check_transport(self)
        _inherit_variables(self)
        if self.url is not None:
            _check_remote(self)
        elif self.headers:
            raise ValueError("has headers, which only a url: uses; use env")
        elif isinstance(self.oauth, OAuthConfig) and self.oauth.mode == "discover":
            raise ValueError(
                "has a command:, so its sign-in cannot be discovered; use oauth with "
                "mode: static, or remove oauth"
            )
        return self


def _inherit_variables(server: ToolServerConfig) -> None:
    """Add the inherited variables to `env`, so that they are secrets as others are."""
    for name in server.env_from:
        if name in server.env:
            raise ValueError(f"has {name} in both env and env_from; remove one of them")
    server.env.update({name: SecretStr(os.environ[name]) for name in server.env_from})


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
            f"has {', '.join(given)}, which only a command: uses; remove it"
        )
    names = {name.lower() for name in server.headers}
    if "authorization" in names and server.sign_in is not None:
        raise ValueError(
            "has both a header Authorization and a sign-in of each user; add oauth: "
            "false if the header is for all users, or remove the header"
        )


def _check_servers(
    servers: dict[str, ToolServerConfig], config: Config
) -> Iterable[Problem]:
    """Yield a problem for each invalid server name and redirect URI."""
    for name, server in servers.items():
        if not SERVER_NAME.fullmatch(name):
            yield Problem(
                ("mcp", name),
                f"mcp server '{name}': the name may contain only letters, digits, _ "
                "and -, at most 64 of them",
                "coulisse.E501",
            )
        redirect = server.sign_in.redirect_uri if server.sign_in else None
        path = f"/mcp/{name}/oauth/callback"
        if redirect is not None and not urlsplit(redirect).path.endswith(path):
            yield Problem(
                ("mcp", name, "oauth", "redirect_uri"),
                f"mcp server '{name}': 'oauth.redirect_uri' must end in {path}, "
                "the path to which users return",
                "coulisse.E502",
            )


def public_base_url(config: Config) -> str:
    """Return the address of this server for clients and browsers, without a `/`."""
    given = config.get(PUBLIC_BASE_URL)
    return given or f"http://localhost:{config.get(SERVER).port}"


def list_commands(servers: Mapping[str, ToolServerConfig]) -> dict[str, Any]:
    """Return the commands to run on this machine, by server."""
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
    description="tool servers agents can use",
)
