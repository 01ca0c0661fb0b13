"""The YAML's `agents:` list."""

from collections.abc import Iterable
from functools import cached_property
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field
from pydantic_core import PydanticCustomError

from config.sections import Config, Problem, Section
from config.spelling import did_you_mean
from providers import parameters
from providers.choice import ModelChoice
from providers.config import PROVIDERS

Probability = Annotated[float, Field(ge=0, le=1)]
Penalty = Annotated[float, Field(ge=-2, le=2)]
ReasoningEffort = Literal["none", "minimal", "low", "medium", "high", "xhigh"]

PARAMETERS = {
    *("frequency_penalty", "max_tokens", "parallel_tool_calls", "presence_penalty"),
    *("reasoning_effort", "seed", "service_tier", "stop", "temperature", "top_p"),
    "verbosity",
}
"""The fields that are defaults of request parameters, under OpenAI's names."""


def refuse_planned(value: Any) -> None:
    """Refuse what this version cannot do; an empty list asks for nothing."""
    if value:
        raise ValueError("is not available in this version of Coulisse; remove it")


Planned = Annotated[Any, AfterValidator(refuse_planned)]


STATE_FIELDS = {
    *("block_tokens", "dedup_threshold", "fusion", "learn_from"),
    *("max_facts_per_turn", "recall_k", "standing_facts"),
}
"""The fields of `AgentMemory` that stand under `memory.user_state` for all agents."""


class AgentMemory(BaseModel):
    """What differs from `memory:` for one agent; what is left out is as there.

    The embedder is the same for all: they share what is known of a user.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    user_state: bool | None = Field(
        default=None,
        description="Whether this agent recalls and learns facts about users.",
    )
    learn_from: ModelChoice | None = Field(
        default=None, description="The model that reads its turns for facts."
    )
    recall_k: int | None = Field(
        default=None, ge=0, le=100, description="How many facts a request recalls."
    )
    dedup_threshold: Probability | None = Field(
        default=None,
        description="Similarity from which a new fact is compared with a known one.",
    )
    max_facts_per_turn: int | None = Field(
        default=None, ge=0, le=100, description="Most facts learnt from one turn."
    )
    fusion: Literal["weighted", "rrf"] | None = Field(
        default=None, description="How found lists become one."
    )
    block_tokens: int | None = Field(
        default=None,
        ge=50,
        le=100_000,
        description="Most tokens of a prompt that go to what is remembered.",
    )
    standing_facts: int | None = Field(
        default=None, ge=0, le=100, description="How many facts are always told."
    )
    recency_limit: int | None = Field(
        default=None, ge=1, description="Most of the newest messages in a prompt."
    )
    salience_limit: int | None = Field(
        default=None, ge=0, le=50, description="Most important older messages quoted."
    )
    salience_threshold: Probability | None = Field(
        default=None, description="The importance from which a message counts as such."
    )
    relevance_limit: int | None = Field(
        default=None, ge=0, le=50, description="Most similar older messages quoted."
    )

    @property
    def is_on(self) -> bool | None:
        """Whether this agent remembers users; None is as `memory:` says."""
        return self.user_state

    @cached_property
    def state(self) -> dict[str, Any]:
        """What it sets of `memory.user_state`."""
        return self._set(STATE_FIELDS)

    @cached_property
    def memory(self) -> dict[str, Any]:
        """What it sets of `memory`."""
        return self._set(self.model_fields_set - STATE_FIELDS - {"user_state"})

    def _set(self, fields: set[str]) -> dict[str, Any]:
        given = ((name, getattr(self, name)) for name in fields)
        return {name: value for name, value in given if value is not None}


def read_memory(value: Any) -> Any:
    """Return `true` and `false` as maps that say no more."""
    return {"user_state": value} if isinstance(value, bool) else value


class AgentConfig(BaseModel):
    """A persona: which model answers, with what instructions."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str = Field(
        min_length=1,
        max_length=255,
        description="What clients send as `model`. Unique.",
    )
    provider: str = Field(description="A name under `providers:`.")
    model: str = Field(
        min_length=1,
        description="The provider's own name of the model, such as `gpt-4o-mini`.",
    )
    preamble: str = Field(
        default="", description="The system prompt every conversation starts with."
    )
    purpose: str | None = Field(
        default=None,
        description="One line that tells other agents when to call this one.",
    )
    max_turns: int = Field(
        default=8, ge=1, description="Most rounds of tool calls in one turn."
    )
    context_tokens: int = Field(
        default=16_000,
        ge=256,
        description="How long a prompt may get: the newest stored messages are "
        "added as long as they fit. Keep it under the model's own window.",
    )
    temperature: float | None = Field(
        default=None, ge=0, le=2, description="Default of the request's parameter."
    )
    top_p: Probability | None = Field(
        default=None, description="Default of the request's parameter."
    )
    max_tokens: int | None = Field(
        default=None, ge=1, description="Most tokens a reply may have."
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
        default=None, description="Where the model stops: up to four texts."
    )
    reasoning_effort: ReasoningEffort | None = Field(
        default=None, description="How long a reasoning model thinks."
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
        description="Fields added to the provider's request as they are, such as "
        "`top_k` for a server of your own.",
    )
    judges: Planned = Field(default=None, description="Not available in this version.")
    mcp_tools: Planned = Field(
        default=None, description="Not available in this version."
    )
    memory: Annotated[
        AgentMemory | None,
        BeforeValidator(read_memory, json_schema_input_type=bool | AgentMemory | None),
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
    skills: Planned = Field(default=None, description="Not available in this version.")
    subagents: Planned = Field(
        default=None, description="Not available in this version."
    )

    @cached_property
    def parameters(self) -> dict[str, Any]:
        """The request parameters this agent sets, under OpenAI's names."""
        return self.model_dump(include=PARAMETERS, exclude_none=True)


def by_name(agents: list[AgentConfig]) -> dict[str, AgentConfig]:
    """Return the agents by name, in the file's order; no name may be taken twice."""
    named: dict[str, AgentConfig] = {}
    for index, agent in enumerate(agents):
        if agent.name in named:
            raise PydanticCustomError(
                "duplicate_name",
                "another agent is already called '{name}'; rename one",
                {"name": agent.name, "at": (index, "name")},
            )
        named[agent.name] = agent
    return named


def check_agents(agents: dict[str, AgentConfig], config: Config) -> Iterable[Problem]:
    """Find agents whose provider is not configured or cannot do what they ask."""
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
        yield from _check_learner(index, agent, config)
        provider = providers[agent.provider]
        for name in parameters.refused(provider, agent.parameters):
            yield Problem(
                ("agents", index, name),
                f"agent '{agent.name}' sets '{name}', which provider "
                f"'{agent.provider}' ({provider.kind}) does not take; remove it",
                "coulisse.E202",
            )


def _check_learner(index: int, agent: AgentConfig, config: Config) -> Iterable[Problem]:
    memory = agent.memory
    if memory is None or memory.user_state is False:
        return
    providers = config.get(PROVIDERS)
    if memory.learn_from is not None and memory.learn_from.provider not in providers:
        name = memory.learn_from.provider
        yield Problem(
            ("agents", index, "memory", "learn_from", "provider"),
            f"agent '{agent.name}' learns from provider '{name}', which is not under "
            f"providers:{did_you_mean(name, providers)}",
            "coulisse.E203",
        )


AGENTS: Section[dict[str, AgentConfig]] = Section(
    key="agents",
    shape=Annotated[list[AgentConfig], Field(min_length=1), AfterValidator(by_name)],
    default=dict,
    noun="agent",
    required=True,
    check=check_agents,
)
