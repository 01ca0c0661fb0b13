"""The YAML's `agents:` list."""

from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    Tag,
)

from agents.memory_config import AgentMemoryConfig, Probability, expand_boolean
from config.agent_settings import AGENT_SETTINGS, AgentSettings
from config.sections import Config, Location, Problem, Section
from config.validation.named_lists import by_name
from config.validation.suggestions import did_you_mean
from mcp_bridge.config import MCP
from providers import registry
from providers.config import PROVIDERS, ProviderConfig
from providers.default_model import ModelChoice

Penalty = Annotated[float, Field(ge=-2, le=2)]
ReasoningEffort = Literal["none", "minimal", "low", "medium", "high", "xhigh"]

PARAMETERS = {
    "frequency_penalty",
    "max_tokens",
    "parallel_tool_calls",
    "presence_penalty",
    "reasoning_effort",
    "seed",
    "service_tier",
    "stop",
    "temperature",
    "top_p",
    "verbosity",
}
"""Fields that set defaults of request parameters, under OpenAI's names."""


TaskTool = Literal["dispatch_task", "tasks_status"]

Fallback = Annotated[
    Annotated[str, Tag("agent")] | Annotated[ModelChoice, Tag("model")],
    Discriminator(lambda value: "agent" if isinstance(value, str) else "model"),
]
"""An agent's name, or a model."""


class ToolGrant(BaseModel):
    """Tools of one MCP server that an agent may use."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    server: str = Field(description="A name under `mcp:`.")
    only: tuple[str, ...] | None = Field(
        default=None,
        description="The tools it may use, by the server's names. Unset: all.",
    )


class AgentConfig(BaseModel):
    """A persona: which model answers, with what instructions."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str = Field(
        min_length=1,
        max_length=255,
        description="The unique name that clients send as `model`.",
    )
    provider: str = Field(description="A name under `providers:`.")
    model: str = Field(
        min_length=1,
        description="The provider's name of the model, such as `gpt-4o-mini`.",
    )
    preamble: str = Field(
        default="", description="The system prompt of every conversation."
    )
    purpose: str | None = Field(
        default=None,
        description="One line that tells other agents when to call this one.",
    )
    max_turns: int = Field(
        default=8, ge=1, description="Maximum rounds of tool calls per turn."
    )
    context_tokens: int = Field(
        default=16_000,
        ge=256,
        description="Maximum length of a prompt, in tokens: it contains as many of the "
        "newest stored messages as fit. Keep it below the model's context window.",
    )
    temperature: float | None = Field(
        default=None, ge=0, le=2, description="Default of the request's parameter."
    )
    top_p: Probability | None = Field(
        default=None, description="Default of the request's parameter."
    )
    max_tokens: int | None = Field(
        default=None, ge=1, description="Maximum tokens of a reply."
    )
    frequency_penalty: Penalty | None = Field(
        default=None, description="Default of the request's parameter."
    )
    presence_penalty: Penalty | None = Field(
        default=None, description="Default of the request's parameter."
    )
    seed: int | None = Field(
        default=None, description="Default of the request's parameter."
    )
    stop: str | Annotated[list[str], Field(max_length=4)] | None = Field(
        default=None, description="Up to four sequences at which the model stops."
    )
    reasoning_effort: ReasoningEffort | None = Field(
        default=None, description="How much a reasoning model thinks."
    )
    verbosity: Literal["low", "medium", "high"] | None = Field(
        default=None, description="Default of the request's parameter."
    )
    service_tier: str | None = Field(
        default=None, description="Default of the request's parameter."
    )
    parallel_tool_calls: bool | None = Field(
        default=None, description="Default of the request's parameter."
    )
    extra_body: dict[str, Any] = Field(
        default={},
        description="Fields added unchanged to the provider's request, such as "
        "`top_k` for a self-hosted server.",
    )
    judges: tuple[str, ...] = Field(
        default=(), description="Names of the judges that score its replies."
    )
    mcp_tools: tuple[ToolGrant, ...] = Field(
        default=(), description="The MCP servers whose tools it may use."
    )
    memory: Annotated[
        AgentMemoryConfig | None,
        BeforeValidator(
            expand_boolean, json_schema_input_type=bool | AgentMemoryConfig | None
        ),
    ] = Field(
        default=None,
        description="Whether and how this agent remembers users, where it differs "
        "from `memory:`: `true`, `false` or a map.",
    )
    memory_tools: bool = Field(
        default=False,
        description="Give the agent the tools search_memory, save_memory, "
        "update_memory and forget_memory.",
    )
    skills: tuple[str, ...] = Field(
        default=(),
        description="Names of the skills it may look up; unknown names are ignored.",
    )
    task_tools: bool | tuple[TaskTool, ...] | None = Field(
        default=None,
        description="Whether it may start background tasks and query their status: "
        "`true`, `false`, or a list of `dispatch_task` and `tasks_status`. Unset: the "
        "default under `tasks:`.",
    )
    subagents: tuple[str, ...] = Field(
        default=(), description="Names of the agents and experiments it may call."
    )
    fallbacks: tuple[Fallback, ...] = Field(
        default=(),
        description="Models to try, in this order, when the agent's own model fails "
        "before any of its reply arrives. Each is the name of an agent, of which only "
        "the model, the parameters and `extra_body` are used, or `{provider, model}`, "
        "called with this agent's parameters.",
    )

    @cached_property
    def parameters(self) -> dict[str, Any]:
        """The request parameters this agent sets, under OpenAI's names."""
        return self.model_dump(include=PARAMETERS, exclude_none=True)


def _check_agents(agents: dict[str, AgentConfig], config: Config) -> Iterable[Problem]:
    """Yield a problem for each agent with invalid references or parameters."""
    providers = config.get(PROVIDERS)
    for index, agent in enumerate(agents.values()):
        if agent.provider not in providers:
            hint = did_you_mean(agent.provider, providers)
            yield Problem(
                ("agents", index, "provider"),
                f"agent '{agent.name}' uses provider '{agent.provider}', which is "
                f"not under providers:{hint}",
                "coulisse.E201",
            )
            continue
        yield from _check_extraction_model(index, agent, config)
        yield from _check_grants(index, agent, config)
        yield from _check_subagents(index, agent)
        yield from _check_fallbacks(index, agent, agents, providers)
        provider = providers[agent.provider]
        for name in registry.find_unsupported_parameters(provider, agent.parameters):
            yield Problem(
                ("agents", index, name),
                f"agent '{agent.name}' sets '{name}', which provider "
                f"'{agent.provider}' ({provider.kind}) does not support; remove it",
                "coulisse.E202",
            )


def _check_extraction_model(
    index: int, agent: AgentConfig, config: Config
) -> Iterable[Problem]:
    memory = agent.memory
    if memory is None or memory.user_state is False:
        return
    providers = config.get(PROVIDERS)
    if memory.learn_from is not None and memory.learn_from.provider not in providers:
        name = memory.learn_from.provider
        yield Problem(
            ("agents", index, "memory", "learn_from", "provider"),
            f"agent '{agent.name}' extracts facts with provider '{name}', which is "
            f"not under providers:{did_you_mean(name, providers)}",
            "coulisse.E203",
        )


def _check_grants(index: int, agent: AgentConfig, config: Config) -> Iterable[Problem]:
    servers = config.get(MCP)
    server_names: set[str] = set()
    for position, grant in enumerate(agent.mcp_tools):
        location = ("agents", index, "mcp_tools", position, "server")
        if grant.server not in servers:
            hint = did_you_mean(grant.server, servers)
            yield Problem(
                location,
                f"agent '{agent.name}' uses MCP server '{grant.server}', which is not "
                f"under mcp:{hint}",
                "coulisse.E204",
            )
        elif grant.server in server_names:
            yield Problem(
                location,
                f"agent '{agent.name}' lists MCP server '{grant.server}' twice; name "
                "all its tools under one 'only'",
                "coulisse.E207",
            )
        server_names.add(grant.server)


def _check_subagents(index: int, agent: AgentConfig) -> Iterable[Problem]:
    for position, name in enumerate(agent.subagents):
        location = ("agents", index, "subagents", position)
        if name == agent.name:
            yield Problem(
                location,
                f"agent '{agent.name}' lists itself under subagents; remove it",
                "coulisse.E205",
            )
        elif name in agent.subagents[:position]:
            yield Problem(
                location,
                f"agent '{agent.name}' lists '{name}' twice under subagents; remove "
                "one",
                "coulisse.E207",
            )


def _check_fallbacks(
    index: int,
    agent: AgentConfig,
    agents: Mapping[str, AgentConfig],
    providers: Mapping[str, ProviderConfig],
) -> Iterable[Problem]:
    """Yield a problem for each fallback that is unknown, repeated, the agent itself, or
    unable to take the agent's parameters."""
    itself = (agent.name, ModelChoice(provider=agent.provider, model=agent.model))
    for position, fallback in enumerate(agent.fallbacks):
        location = ("agents", index, "fallbacks", position)
        if fallback in itself:
            yield Problem(
                location,
                f"agent '{agent.name}' falls back to itself; name another agent or "
                "model",
                "coulisse.E209",
            )
        elif fallback in agent.fallbacks[:position]:
            yield Problem(
                location,
                f"agent '{agent.name}' lists {_describe_fallback(fallback)} twice "
                "under fallbacks; remove one",
                "coulisse.E207",
            )
        elif isinstance(fallback, ModelChoice):
            yield from _check_model(location, agent, fallback, providers)
        elif fallback not in agents:
            yield Problem(
                location,
                f"agent '{agent.name}' falls back to agent '{fallback}', which does "
                f"not exist{did_you_mean(fallback, agents)}",
                "coulisse.E208",
            )


def _check_model(
    location: Location,
    agent: AgentConfig,
    fallback: ModelChoice,
    providers: Mapping[str, ProviderConfig],
) -> Iterable[Problem]:
    provider = providers.get(fallback.provider)
    if provider is None:
        yield Problem(
            (*location, "provider"),
            f"agent '{agent.name}' falls back to provider '{fallback.provider}', which "
            f"is not under providers:{did_you_mean(fallback.provider, providers)}",
            "coulisse.E208",
        )
        return
    for name in registry.find_unsupported_parameters(provider, agent.parameters):
        yield Problem(
            location,
            f"agent '{agent.name}' sets '{name}', which its fallback's provider "
            f"'{fallback.provider}' ({provider.kind}) does not support; fall back to "
            "an agent of that provider instead",
            "coulisse.E210",
        )


def _describe_fallback(fallback: str | ModelChoice) -> str:
    if isinstance(fallback, str):
        return f"'{fallback}'"
    return f"{fallback.provider}/{fallback.model}"


def _settings_of(agent: AgentConfig) -> AgentSettings:
    """Let mypy check that `AgentConfig` satisfies the protocol `AgentSettings`."""
    return agent


AGENTS: Section[dict[str, AgentConfig]] = Section(
    key=AGENT_SETTINGS.key,
    shape=Annotated[
        list[AgentConfig], Field(min_length=1), AfterValidator(by_name("agent"))
    ],
    default=dict,
    noun="agent",
    is_overridable=True,
    required=True,
    check=_check_agents,
)
