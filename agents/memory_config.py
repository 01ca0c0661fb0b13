"""An agent's own `memory:` settings in the YAML."""

from functools import cached_property
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from providers.default_model import ModelChoice

Probability = Annotated[float, Field(ge=0, le=1)]

STATE_FIELDS = {
    "block_tokens",
    "dedup_threshold",
    "fusion",
    "learn_from",
    "max_facts_per_turn",
    "recall_k",
    "pinned_facts",
}
"""Fields of `AgentMemoryConfig` that belong to `memory.user_state`."""


class AgentMemoryConfig(BaseModel):
    """An agent's overrides of `memory:`; unset fields keep the global value.

    The embedder cannot be overridden: all agents share the facts about a user.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    user_state: bool | None = Field(
        default=None,
        description="Whether to extract and recall facts in this agent's turns.",
    )
    learn_from: ModelChoice | None = Field(
        default=None, description="The model that extracts facts from its turns."
    )
    recall_k: int | None = Field(
        default=None,
        ge=0,
        le=100,
        description="Number of facts recalled per request (top-k).",
    )
    dedup_threshold: Probability | None = Field(
        default=None,
        description="Minimum similarity at which a new fact is compared with a stored "
        "one.",
    )
    max_facts_per_turn: int | None = Field(
        default=None,
        ge=0,
        le=100,
        description="Maximum number of facts extracted per turn.",
    )
    fusion: Literal["weighted", "rrf"] | None = Field(
        default=None, description="How search results are merged."
    )
    block_tokens: int | None = Field(
        default=None,
        ge=50,
        le=100_000,
        description="Maximum tokens of a prompt for facts and quoted messages.",
    )
    pinned_facts: int | None = Field(
        default=None,
        ge=0,
        le=100,
        description="Maximum number of facts in every prompt.",
    )
    scope: Literal["user", "agent", "thread"] | None = Field(
        default=None,
        description="Where what it learns is recalled: by all agents, by this one, or "
        "in the same thread.",
    )
    recency_limit: int | None = Field(
        default=None, ge=1, description="Maximum number of recent messages in a prompt."
    )
    salience_limit: int | None = Field(
        default=None,
        ge=0,
        le=50,
        description="Maximum number of important older messages in a prompt.",
    )
    salience_threshold: Probability | None = Field(
        default=None, description="Minimum importance of such a message."
    )
    relevance_limit: int | None = Field(
        default=None,
        ge=0,
        le=50,
        description="Maximum number of similar older messages in a prompt.",
    )

    @property
    def is_on(self) -> bool | None:
        """Whether this agent remembers users; None keeps the value of `memory:`."""
        return self.user_state

    @cached_property
    def user_state_fields(self) -> dict[str, Any]:
        """The agent's overrides of `memory.user_state`."""
        return self._set_fields(STATE_FIELDS)

    @cached_property
    def memory_fields(self) -> dict[str, Any]:
        """The agent's overrides of `memory`."""
        return self._set_fields(self.model_fields_set - STATE_FIELDS - {"user_state"})

    def _set_fields(self, fields: set[str]) -> dict[str, Any]:
        values = ((name, getattr(self, name)) for name in fields)
        return {name: value for name, value in values if value is not None}


def expand_boolean(value: Any) -> Any:
    """Return `true` and `false` as the map that they abbreviate."""
    return {"user_state": value} if isinstance(value, bool) else value
