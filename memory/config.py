"""The YAML's `memory:` block."""

from collections.abc import Iterable
from typing import Annotated, Any, Literal, assert_never

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from config.sections import Config, Problem, Section
from config.validation.suggestions import did_you_mean
from memory.facts.types import HeldFor
from memory.recall.types import Fusion
from providers.config import PROVIDERS
from providers.default_model import ModelChoice
from providers.embeddings import embedders
from providers.embeddings.config import EmbedderConfig

Scope = Literal["user", "agent", "thread"]
Share = Annotated[float, Field(ge=0, le=1)]


class UserState(BaseModel):
    """How facts about each user are extracted and recalled."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    embed_with: EmbedderConfig | None = Field(
        default=None,
        description="The embedder, which turns text into vectors. Unset: OpenAI's if "
        "`openai` is under `providers:`, else a small model on this machine.",
    )
    learn_from: ModelChoice | None = Field(
        default=None,
        description="The model that extracts facts from each turn. Unset: a cheap "
        "model of the first configured provider of anthropic, openai, gemini, groq, "
        "deepseek and cohere, or else the agent's own model.",
    )
    recall_k: int = Field(
        default=5,
        ge=0,
        le=100,
        description="Number of facts recalled per request (top-k).",
    )
    dedup_threshold: Share = Field(
        default=0.9,
        description="Minimum cosine similarity at which a new fact is compared, word "
        "by word, with a stored one.",
    )
    max_facts_per_turn: int = Field(
        default=5,
        ge=0,
        le=100,
        description="Maximum number of facts extracted per turn.",
    )
    fusion: Fusion = Field(
        default="weighted",
        description="How search results by meaning and by words are merged: "
        "`weighted` adds their scores, `rrf` their reciprocal ranks.",
    )
    block_tokens: int = Field(
        default=1000,
        ge=50,
        le=100_000,
        description="Maximum tokens of a prompt for facts and quoted messages.",
    )
    pinned_facts: int = Field(
        default=10,
        ge=0,
        le=100,
        description="Maximum number of facts in every prompt: pinned ones, then those "
        "of importance 9 and 10.",
    )

    commit: Literal["turn", "session"] = Field(
        default="turn",
        description="When extracted facts are used: from their `turn` on, or from the "
        "end of the `session` on, until which they are pending review.",
    )
    consent: Literal["none", "ask"] = Field(
        default="none",
        description="`ask`: facts that are extracted, or saved by an agent, are "
        "pending review until the user accepts them.",
    )

    @property
    def held_for(self) -> Literal[HeldFor, ""]:
        """What extracted facts wait for first."""
        if self.commit == "session":
            return "session"
        return self.held_for_consent

    @property
    def held_for_consent(self) -> Literal[HeldFor, ""]:
        """What facts that an agent saves wait for."""
        return "consent" if self.consent == "ask" else ""


USER_SCOPE = ""
"""The scope of what all turns of a user recall."""


def scope_key(scope: Scope, agent: str, thread: str) -> str:
    """Return the stored name of a scope, for an agent and a thread of a user.

    What is learned under one is recalled under the same only.
    """
    match scope:
        case "user":
            return USER_SCOPE
        case "agent":
            return f"agent:{agent}"
        case "thread":
            return f"thread:{thread}"
        case _:
            assert_never(scope)


def _expand_boolean(value: Any) -> Any:
    """Return `true` as a map with nothing set, and `false` as None."""
    if value is True:
        return {}
    return None if value is False else value


class SessionConfig(BaseModel):
    """When a session of a thread ends, and what the next one knows of it."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    idle_minutes: float = Field(
        default=20,
        ge=1,
        le=10_080,
        description="Minutes without a turn after which a session ends.",
    )
    episodes: bool = Field(
        default=True,
        description="Whether the model that extracts facts also writes, at the end of "
        "a session, what happened in it.",
    )
    catch_up: bool = Field(
        default=True,
        description="Whether the first prompt of a session has the last episode, how "
        "long ago it was, and the date.",
    )
    end_on_shutdown: bool = Field(
        default=False,
        description="Whether open sessions end when `coulisse start` stops.",
    )


class RoleImportance(BaseModel):
    """The initial importance of a message, from 0 to 1, by its role."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    user: Share = Field(default=0.5, description="Messages of users.")
    assistant: Share = Field(default=0.5, description="Replies of agents.")
    tool: Share = Field(default=0.3, description="Results of tools.")
    system: Share = Field(default=0.1, description="Instructions; never stored.")


MAX_COMMENT_LENGTH = 2000
"""Of the feedback on a session."""

Days = Annotated[int, Field(ge=1, le=36_500)] | None


class KeepDays(BaseModel):
    """The age, by kind, at which what is stored about users is deleted."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    messages: Days = Field(
        default=None,
        description="Days until messages are deleted, and the summaries of them; null "
        "means never.",
    )
    facts: Days = Field(
        default=None,
        description="Days without a change until facts that are not pinned are "
        "deleted, with their history; null means never.",
    )


class MemoryConfig(BaseModel):
    """Settings of memory. Conversations are always stored."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    user_state: Annotated[
        UserState | None,
        BeforeValidator(_expand_boolean, json_schema_input_type=bool | UserState),
    ] = Field(
        default=None,
        description="Whether to extract and recall facts about each user: `true`, "
        "`false`, or a map of settings. Unset: off.",
    )
    sessions: Annotated[
        SessionConfig | None,
        BeforeValidator(_expand_boolean, json_schema_input_type=bool | SessionConfig),
    ] = Field(
        default=SessionConfig(),
        description="Whether the conversations of users with `user_state` have "
        "sessions: `true`, `false`, or a map of settings.",
    )
    scope: Scope = Field(
        default="user",
        description="Where facts, rules, episodes and messages of other threads are "
        "recalled: `user`: in all turns of the user; `agent`: only in turns of the "
        "agent that learned them; `thread`: only in their thread.",
    )
    recency_limit: int | None = Field(
        default=None,
        ge=1,
        description="Maximum number of recent messages in a prompt. Unset: as many as "
        "fit.",
    )
    salience_limit: int = Field(
        default=5,
        ge=0,
        le=50,
        description="Maximum number of important older messages of the thread quoted "
        "in a prompt.",
    )
    salience_threshold: Share = Field(
        default=0.8, description="Minimum importance of such a message."
    )
    relevance_limit: int = Field(
        default=5,
        ge=0,
        le=50,
        description="Maximum number of older messages of the user, from any thread, "
        "quoted because they are similar to the question.",
    )
    importance: RoleImportance = Field(
        default=RoleImportance(), description="The initial importance of messages."
    )
    working_memory_cap: int = Field(
        default=50,
        ge=0,
        le=1000,
        description="Maximum number of a thread's newest messages that a process "
        "caches.",
    )
    keep_days: KeepDays = Field(
        default=KeepDays(), description="When old messages and facts are deleted."
    )
    consolidation_interval_hours: float = Field(
        default=6,
        gt=0,
        description="Hours between summaries of old conversations.",
    )
    consolidate_after_hours: float = Field(
        default=24,
        gt=0,
        description="Minimum age of a message, in hours, before it is summarized.",
    )


def check_memory(memory: MemoryConfig, config: Config) -> Iterable[Problem]:
    """Yield a problem for an unknown extraction model or embedder."""
    state = memory.user_state
    if state is None:
        return
    at = ("memory", "user_state")
    yield from _check_extraction_model(state, config, at)
    if state.commit == "session" and memory.sessions is None:
        message = (
            "commit: session needs sessions, at whose end facts are used; remove "
            "`sessions: false` under memory:, or set commit: turn"
        )
        yield Problem((*at, "commit"), message, "coulisse.E403")
    for field, message in embedders.find_problems(config, state.embed_with):
        message = f"embed_with.{field}: {message}"
        yield Problem((*at, "embed_with", field), message, "coulisse.E402")


def _check_extraction_model(
    state: UserState, config: Config, at: tuple[str, ...]
) -> Iterable[Problem]:
    providers = config.get(PROVIDERS)
    if state.learn_from is not None and state.learn_from.provider not in providers:
        name = state.learn_from.provider
        yield Problem(
            (*at, "learn_from", "provider"),
            f"learn_from uses provider '{name}', which is not under providers:"
            f"{did_you_mean(name, providers)}",
            "coulisse.E401",
        )


MEMORY: Section[MemoryConfig] = Section(
    key="memory",
    shape=MemoryConfig,
    default=MemoryConfig,
    check=check_memory,
    description="what Coulisse remembers about each user",
)
