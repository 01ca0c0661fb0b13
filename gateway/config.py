"""The YAML's `mcp_server:`: the server's own MCP interface."""

from collections.abc import Iterable
from typing import Annotated, Any
from urllib.parse import urlsplit

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from config.config import SERVER
from config.sections import Config, Problem, Section
from config.validation.suggestions import did_you_mean
from mcp_bridge.config import MCP, public_base_url
from turns.preparation import routing

LOCAL_HOSTS = {"localhost", "127.0.0.1", "::1", "0.0.0.0"}  # noqa: S104 (named, not bound)
"""Names of this machine."""


class McpServerConfig(BaseModel):
    """The MCP interface at `/mcp`: on by default, with the credentials of `/v1`."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    enabled: bool = Field(
        default=True, description="Whether `/mcp` is served; if false, it returns 404."
    )
    agents: tuple[str, ...] | None = Field(
        default=None,
        description="The agents offered as tools. Unset offers all, `[]` none.",
    )
    memory_tools: bool = Field(
        default=True,
        description="Whether `search_memory` and `save_memory` are offered, if any "
        "agent has user memory.",
    )


def _expand_bool(value: Any) -> Any:
    """Expand `true` and `false` to maps."""
    return {"enabled": value} if isinstance(value, bool) else value


def check(settings: McpServerConfig, config: Config) -> Iterable[Problem]:
    """Refuse unknown agents, duplicate names, and a reference to this server."""
    yield from _check_agents(settings, config)
    if settings.enabled:
        yield from _check_self_reference(config)


def _check_agents(settings: McpServerConfig, config: Config) -> Iterable[Problem]:
    """Refuse unknown agents, and agents that are listed twice."""
    agents = routing.list_names(config)
    offered = settings.agents or ()
    for position, name in enumerate(offered):
        location = ("mcp_server", "agents", position)
        if name not in agents:
            yield Problem(
                location,
                f"mcp_server offers the agent '{name}', which does not exist"
                f"{did_you_mean(name, agents)}",
                "coulisse.E561",
            )
        elif name in offered[:position]:
            yield Problem(
                location,
                f"mcp_server offers the agent '{name}' twice; name it once",
                "coulisse.E562",
            )


def _check_self_reference(config: Config) -> Iterable[Problem]:
    """Refuse this server among the MCP servers of its own agents.

    The agents would call each other endlessly, as `default_user_id` instead of the
    turn's user.
    """
    for name, server in config.get(MCP).items():
        if server.url is not None and _is_own_mcp_url(server.url, config):
            yield Problem(
                ("mcp", name, "url"),
                f"MCP server '{name}' is this server itself; to let one agent call "
                "another, list it under the agent's subagents:",
                "coulisse.E563",
            )


def _is_own_mcp_url(url: str, config: Config) -> bool:
    """Return whether a URL is this server's `/mcp`, as far as the YAML shows."""
    address = urlsplit(url)
    if address.path.rstrip("/") != "/mcp":
        return False
    own = urlsplit(public_base_url(config))
    if address.netloc == own.netloc:
        return True
    is_local = address.hostname in LOCAL_HOSTS
    return is_local and (address.port or 80) == config.get(SERVER).port


MCP_SERVER: Section[McpServerConfig] = Section(
    key="mcp_server",
    shape=Annotated[
        McpServerConfig,
        BeforeValidator(_expand_bool, json_schema_input_type=bool | McpServerConfig),
    ],
    default=McpServerConfig,
    check=check,
    fails_closed=True,
    description="The MCP server at /mcp, which offers the agents and memory as tools.",
)
