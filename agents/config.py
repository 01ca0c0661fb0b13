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
from agents.realtime_config import RealtimeConfig
from agents.state.config import StateFields
from config.agent_settings import AGENT_SETTINGS, AgentSettings
from config.sections import Config, Location, Problem, Section
from config.validation.named_lists import by_name
from config.validation.suggestions import did_you_mean
from core.history import History
from mcp_bridge.config import MCP
from providers import registry
from providers.config import PROVIDERS, ProviderConfig
from providers.default_model import ModelChoice

Penalty = Annotated[float, Field(ge=-2, le=2)]
Temperature = Annotated[float, Field(ge=0, le=2)]
ReasoningEffort = Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"]

TaskTool = Literal["dispatch_task", "tasks_status"]
RescueMode = Literal["continue", "restart", "off"]

ContextWindow = Annotated[
    int | None,
    Field(
        ge=256,
        description="The tokens of the model's context window. Default: that of the "
        "price list, if it has the model.",
    ),
]


class FallbackModel(ModelChoice):
    """A model that answers with the parameters of the agent."""

    context_window: ContextWindow = None


Fallback = Annotated[
    Annotated[str, Tag("agent")] | Annotated[FallbackModel, Tag("model")],
    Discriminator(lambda value: "agent" if isinstance(value, str) else "model"),
]
"""An agent's name, or a model."""


REQUEST_DEFAULT: Any = Field(
    default=None, description="Default of the request's parameter."
)


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
    context_tokens: int | None = Field(
        default=None,
        ge=256,
        description="Maximum length of a prompt, in tokens: it contains as many of the "
        "newest stored messages as fit. Default: three quarters of the model's context "
        "window less a reply, 100,000 at most; 16,000 if the window is unknown.",
    )
    context_window: ContextWindow = None
    context_overflow: Literal["error", "trim"] = Field(
        default="error",
        description="What happens if the conversation that a client sends exceeds "
        "`context_tokens`, where that is set, or if a prompt exceeds the windows of "
        "all models: the request is refused, or its oldest messages are left out.",
    )
    history: History | None = Field(
        default=None,
        description="`auto`, `server`, `client` or `none`, where it differs from "
        "`history:`.",
    )
    temperature: Temperature | None = REQUEST_DEFAULT
    top_p: Probability | None = REQUEST_DEFAULT
    max_tokens: int | None = Field(
        default=None, ge=1, description="Maximum tokens of a reply."
    )
    frequency_penalty: Penalty | None = REQUEST_DEFAULT
    presence_penalty: Penalty | None = REQUEST_DEFAULT
    seed: int | None = REQUEST_DEFAULT
    stop: str | Annotated[list[str], Field(max_length=4)] | None = Field(
        default=None, description="Up to four sequences at which the model stops."
    )
    reasoning_effort: ReasoningEffort | None = Field(
        default=None, description="How much a reasoning model thinks."
    )
    verbosity: Literal["low", "medium", "high"] | None = REQUEST_DEFAULT
    service_tier: str | None = REQUEST_DEFAULT
    parallel_tool_calls: bool | None = REQUEST_DEFAULT
    extra_body: dict[str, Any] = Field(
        default={},
        description="Fields added unchanged to the provider's request, such as "
        "`top_k` for a self-hosted server.",
    )
    unknown_parameters: Literal["pass", "drop", "refuse"] | None = Field(
        default=None,
        description="What happens to parameters of a request that OpenAI's API does "
        "not have: `pass` sends all to the provider, `drop` none, `refuse` answers "
        "400. Unset: common ones such as `top_k` are sent to providers that have them "
        "and otherwise dropped; any other name is refused.",
    )
    realtime: RealtimeConfig | None = Field(
        default=None, description="The model for conversations by voice."
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
    threads: Literal["shared", "own"] = Field(
        default="shared",
        description="`own`: a thread of this agent is another one than the thread of "
        "the same name of other agents.",
    )
    memory_tools: bool = Field(
        default=False,
        description="Give the agent the tools search_memory, save_memory, "
        "update_memory and forget_memory.",
    )
    state: StateFields = Field(
        default={},
        description="What it keeps of each conversation: fields by name, which its "
        "tool update_state changes and every prompt shows.",
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
    task_scope: Literal["user", "all"] = Field(
        default="user",
        description="Whose tasks `tasks_status` lists: those of the turn's user, or "
        "those of all users, for agents that only the operator calls.",
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
    rescue: RescueMode = Field(
        default="continue",
        description="What happens to a reply that breaks off after the client has "
        "received a part: a model continues it, it is requested again and the received "
        "part is left out (`restart`), or the client receives the error (`off`).",
    )

    hedge_after_seconds: float | None = Field(
        default=None,
        gt=0,
        le=600,
        description="If a streamed reply has not begun after that time, the next of "
        "`fallbacks` is asked, too: whichever begins first answers, and the other is "
        "cancelled. Both are charged.",
    )

    @cached_property
    def parameters(self) -> dict[str, Any]:
        """The request parameters this agent sets, under OpenAI's names."""
        return self.model_dump(include=PARAMETERS, exclude_none=True)


PARAMETERS = set(registry.PARAMETERS & AgentConfig.model_fields.keys())
"""Fields that set defaults of request parameters."""


AgentProblem = tuple[Location, str, str]
"""A path in the agent's entry, what the agent does wrong, and the code."""


def _check_agents(agents: dict[str, AgentConfig], config: Config) -> Iterable[Problem]:
    """Yield a problem for each agent with invalid references or parameters."""
    for index, agent in enumerate(agents.values()):
        for path, problem, code in _agent_problems(agent, agents, config):
            text = f"agent '{agent.name}' {problem}"
            yield Problem(("agents", index, *path), text, code)


def _agent_problems(
    agent: AgentConfig, agents: Mapping[str, AgentConfig], config: Config
) -> Iterable[AgentProblem]:
    providers = config.get(PROVIDERS)
    if agent.provider not in providers:
        yield (
            ("provider",),
            f"uses provider '{agent.provider}', which is not under providers:"
            f"{did_you_mean(agent.provider, providers)}",
            "coulisse.E201",
        )
        return
    yield from _extraction_problems(agent, providers)
    yield from _grant_problems(agent, config)
    yield from _subagent_problems(agent)
    yield from _fallback_problems(agent, agents, providers)
    yield from _realtime_problems(agent, providers)
    provider = providers[agent.provider]
    for name in registry.find_unsupported_parameters(provider, agent.parameters):
        yield (
            (name,),
            f"sets '{name}', which provider '{agent.provider}' ({provider.kind}) does "
            "not support; remove it",
            "coulisse.E202",
        )


def _extraction_problems(
    agent: AgentConfig, providers: Mapping[str, ProviderConfig]
) -> Iterable[AgentProblem]:
    memory = agent.memory
    if memory is None or memory.user_state is False or memory.learn_from is None:
        return
    name = memory.learn_from.provider
    if name not in providers:
        yield (
            ("memory", "learn_from", "provider"),
            f"extracts facts with provider '{name}', which is not under providers:"
            f"{did_you_mean(name, providers)}",
            "coulisse.E203",
        )


def _realtime_problems(
    agent: AgentConfig, providers: Mapping[str, ProviderConfig]
) -> Iterable[AgentProblem]:
    if agent.realtime is None:
        return
    name = agent.realtime.provider or agent.provider
    if name not in providers:
        yield (
            ("realtime", "provider"),
            f"speaks with provider '{name}', which is not under providers:"
            f"{did_you_mean(name, providers)}",
            "coulisse.E212",
        )
    elif providers[name].kind != "openai":
        yield (
            ("realtime",),
            f"speaks with provider '{name}' ({providers[name].kind}), which has no "
            "realtime models; set realtime.provider to one of kind openai",
            "coulisse.E212",
        )


def _grant_problems(agent: AgentConfig, config: Config) -> Iterable[AgentProblem]:
    servers = config.get(MCP)
    names = [grant.server for grant in agent.mcp_tools]
    for position, name in enumerate(names):
        path = ("mcp_tools", position, "server")
        if name not in servers:
            hint = did_you_mean(name, servers)
            text = f"uses MCP server '{name}', which is not under mcp:{hint}"
            yield path, text, "coulisse.E204"
        elif name in names[:position]:
            yield (
                path,
                f"lists MCP server '{name}' twice; name all its tools under one 'only'",
                "coulisse.E207",
            )


def _subagent_problems(agent: AgentConfig) -> Iterable[AgentProblem]:
    for position, name in enumerate(agent.subagents):
        path = ("subagents", position)
        if name == agent.name:
            yield path, "lists itself under subagents; remove it", "coulisse.E205"
        elif name in agent.subagents[:position]:
            text = f"lists '{name}' twice under subagents; remove one"
            yield path, text, "coulisse.E207"


def _fallback_problems(
    agent: AgentConfig,
    agents: Mapping[str, AgentConfig],
    providers: Mapping[str, ProviderConfig],
) -> Iterable[AgentProblem]:
    """Yield a problem for each fallback that is unknown, repeated, the agent itself, or
    unable to take the agent's parameters."""
    if agent.hedge_after_seconds is not None and not agent.fallbacks:
        text = "sets hedge_after_seconds, but has no fallbacks that could be asked"
        yield ("hedge_after_seconds",), text, "coulisse.E213"
    itself = (agent.name, f"{agent.provider}/{agent.model}")
    for position, fallback in enumerate(agent.fallbacks):
        path = ("fallbacks", position)
        if _fallback_name(fallback) in itself:
            text = "falls back to itself; name another agent or model"
            yield path, text, "coulisse.E209"
        elif fallback in agent.fallbacks[:position]:
            name = _describe_fallback(fallback)
            text = f"lists {name} twice under fallbacks; remove one"
            yield path, text, "coulisse.E207"
        elif isinstance(fallback, FallbackModel):
            yield from _model_problems(path, agent, fallback, providers)
        elif fallback not in agents:
            yield (
                path,
                f"falls back to agent '{fallback}', which does not exist"
                f"{did_you_mean(fallback, agents)}",
                "coulisse.E208",
            )


def _model_problems(
    path: Location,
    agent: AgentConfig,
    fallback: FallbackModel,
    providers: Mapping[str, ProviderConfig],
) -> Iterable[AgentProblem]:
    provider = providers.get(fallback.provider)
    if provider is None:
        yield (
            (*path, "provider"),
            f"falls back to provider '{fallback.provider}', which is not under "
            f"providers:{did_you_mean(fallback.provider, providers)}",
            "coulisse.E208",
        )
        return
    for name in registry.find_unsupported_parameters(provider, agent.parameters):
        yield (
            path,
            f"sets '{name}', which its fallback's provider '{fallback.provider}' "
            f"({provider.kind}) does not support; fall back to an agent of that "
            "provider instead",
            "coulisse.E210",
        )


def _describe_fallback(fallback: str | FallbackModel) -> str:
    name = _fallback_name(fallback)
    return f"'{name}'" if isinstance(fallback, str) else name


def _fallback_name(fallback: str | FallbackModel) -> str:
    if isinstance(fallback, str):
        return fallback
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
    description="the agents clients can talk to",
)
