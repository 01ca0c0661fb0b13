"""The YAML's `memory:` block."""

from collections.abc import Iterable
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from config.sections import Config, Problem, Section
from config.validation.suggestions import did_you_mean
from memory.types import Fusion
from providers.config import PROVIDERS
from providers.default_model import ModelChoice
from providers.embeddings import embedders
from providers.embeddings.config import EmbedderConfig

Share = Annotated[float, Field(ge=0, le=1)]


class UserState(BaseModel):
    """How facts about each user are extracted and recalled."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    embed_with: EmbedderConfig | None = Field(
        default=None,
        description="What turns text into vectors. Unset: OpenAI's if `openai` is "
        "under `providers:`, else a small model on this machine.",
    )
    learn_from: ModelChoice | None = Field(
        default=None,
        description="The model that reads each turn for facts. Unset: a cheap model "
        "of the first provider of anthropic, openai, gemini, groq, deepseek, cohere; "
        "where there is none of them, the agent's own.",
    )
    recall_k: int = Field(
        default=5, ge=0, le=100, description="How many facts a request recalls."
    )
    dedup_threshold: Share = Field(
        default=0.9,
        description="Cosine similarity from which a new fact is compared, word by "
        "word, with one that is known.",
    )
    max_facts_per_turn: int = Field(
        default=5, ge=0, le=100, description="Most facts learnt from one turn."
    )
    fusion: Fusion = Field(
        default="weighted",
        description="How what was found by meaning and by words becomes one list: "
        "`weighted` adds their scores, `rrf` their ranks.",
    )
    block_tokens: int = Field(
        default=1000,
        ge=50,
        le=100_000,
        description="Most tokens of a prompt that go to what is remembered.",
    )
    standing_facts: int = Field(
        default=10,
        ge=0,
        le=100,
        description="How many facts are always told: pinned ones, then those of "
        "importance 9 and 10.",
    )


def _expand_boolean(value: Any) -> Any:
    """Return `true` as a map with nothing set, and `false` as None."""
    if value is True:
        return {}
    return None if value is False else value


class RoleImportance(BaseModel):
    """The initial importance of a message, from 0 to 1, by its role."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    user: Share = Field(default=0.5, description="What a user says.")
    assistant: Share = Field(default=0.5, description="What an agent replies.")
    tool: Share = Field(default=0.3, description="What a tool answers.")
    system: Share = Field(default=0.1, description="Instructions; never stored.")


class MemoryConfig(BaseModel):
    """What is remembered besides conversations, which are always stored."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    user_state: Annotated[
        UserState | None,
        BeforeValidator(_expand_boolean, json_schema_input_type=bool | UserState),
    ] = Field(
        default=None,
        description="Learn facts about each user and recall them: `true`, `false`, "
        "or a map of settings. Off unless given.",
    )
    recency_limit: int | None = Field(
        default=None,
        ge=1,
        description="Most of the newest messages put into a prompt. Unset puts in "
        "as many as fit.",
    )
    salience_limit: int = Field(
        default=5,
        ge=0,
        le=50,
        description="How many important older messages of the thread are quoted in "
        "a prompt.",
    )
    salience_threshold: Share = Field(
        default=0.8, description="The importance from which a message counts as such."
    )
    relevance_limit: int = Field(
        default=5,
        ge=0,
        le=50,
        description="How many older messages of the user, of any thread, are quoted "
        "because they resemble the question.",
    )
    importance: RoleImportance = Field(
        default=RoleImportance(), description="A message's importance at first."
    )
    working_memory_cap: int = Field(
        default=50,
        ge=0,
        le=1000,
        description="How many of a thread's newest messages a process holds ready.",
    )
    consolidation_interval_hours: float = Field(
        default=6,
        gt=0,
        description="How often old conversations are summarised.",
    )
    consolidate_after_hours: float = Field(
        default=24,
        gt=0,
        description="How old a message must be to give way to a summary.",
    )


def check_memory(memory: MemoryConfig, config: Config) -> Iterable[Problem]:
    """Yield a problem for an unknown extraction model or embedder."""
    state = memory.user_state
    if state is None:
        return
    at = ("memory", "user_state")
    yield from _check_extraction_model(state, config, at)
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
            f"memory learns from provider '{name}', which is not under providers:"
            f"{did_you_mean(name, providers)}",
            "coulisse.E401",
        )


MEMORY: Section[MemoryConfig] = Section(
    key="memory", shape=MemoryConfig, default=MemoryConfig, check=check_memory
)
