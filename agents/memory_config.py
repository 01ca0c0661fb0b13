"""An agent's own `memory:` settings in the YAML."""

from functools import cached_property
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from providers.default_model import ModelChoice

Probability = Annotated[float, Field(ge=0, le=1)]

STATE_FIELDS = {
    *("block_tokens", "dedup_threshold", "fusion", "learn_from"),
    *("max_facts_per_turn", "recall_k", "standing_facts"),
}
"""Fields of `AgentMemoryConfig` that belong to `memory.user_state`."""


class AgentMemoryConfig(BaseModel):
    """An agent's overrides of `memory:`; unset fields keep the global value.

    The embedder cannot be overridden: all agents share what is known about a user.
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
        given = ((name, getattr(self, name)) for name in fields)
        return {name: value for name, value in given if value is not None}


def expand_boolean(value: Any) -> Any:
    """Return `true` and `false` as the map that they abbreviate."""
    return {"user_state": value} if isinstance(value, bool) else value
