"""What memory does for an agent: its settings, its embedder and its learner.

Worked out once for each reading of the YAML, for a turn has no time for it.
"""

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from config.agent_settings import AGENT_SETTINGS, MemoryOverrides
from config.sections import Config
from memory.config import MEMORY, MemoryConfig, UserState
from providers import default_model
from providers.config import PROVIDERS, ProviderConfig
from providers.default_model import ModelChoice
from providers.embeddings import embedders
from providers.embeddings.base import Embedder


class ExtractionModel(NamedTuple):
    """The model that reads turns for facts."""

    name: str
    """Its provider's, under `providers:`."""
    provider: ProviderConfig
    model: str


@dataclass(frozen=True, slots=True)
class UserMemory:
    """Memory that is switched on, with everything it needs."""

    embedder: Embedder
    extraction_model: ExtractionModel | None
    """None where no agent is meant and no cheap model is known."""
    user_state: UserState
    memory: MemoryConfig


class ResolvedMemory(NamedTuple):
    """An agent's settings, and its plan where it remembers users."""

    settings: MemoryConfig
    user_memory: UserMemory | None

    @property
    def has_paid_embedder(self) -> bool:
        """Whether an API makes the vectors of users' memories."""
        return (
            self.user_memory is not None and self.user_memory.embedder.api is not None
        )


_cache: tuple[Config | None, dict[Any, ResolvedMemory]] = (None, {})
"""The configuration in force, and what it makes of each agent's overrides."""


def resolve(
    config: Config,
    overrides: MemoryOverrides | None = None,
    own_model: tuple[str, str] | None = None,
) -> ResolvedMemory:
    """Return how an agent remembers under a configuration; no plan is not at all.

    `own_model` is the agent's provider and model, which it learns with where no cheap
    model is known. Without an agent, how all remember.
    """
    global _cache
    known_config, memories = _cache
    if known_config is not config:
        memories = {}
        _cache = (config, memories)
    # The overrides belong to the configuration, so they live as long as it does.
    key = id(overrides), own_model
    memory = memories.get(key)
    if memory is None:
        settings = _merge_settings(config, overrides)
        plan = _resolve_user_memory(config, settings, own_model)
        memory = memories[key] = ResolvedMemory(settings, plan)
    return memory


def resolve_for_agent(config: Config, name: str) -> ResolvedMemory:
    """Return how an agent remembers; one that is gone from the YAML, as all do."""
    agent = config.get(AGENT_SETTINGS).get(name)
    if agent is None:
        return resolve(config)
    return resolve(config, agent.memory, (agent.provider, agent.model))


def resolve_for_users(config: Config) -> UserMemory | None:
    """Return how users are remembered: by all agents, or else by the first that does.

    None is where no agent remembers them. The embedder is the same for all, for they
    share what is known of a user. Where each agent learns with its own model, that of
    the first is lent for what is done for all.
    """
    plans = (
        resolve_for_agent(config, name).user_memory
        for name in ("", *config.get(AGENT_SETTINGS))
    )
    found = (plan for plan in plans if plan is not None)
    first = next(found, None)
    if first is None or first.extraction_model is not None:
        return first
    return replace(
        first, extraction_model=next((plan.extraction_model for plan in found), None)
    )


def _merge_settings(config: Config, overrides: MemoryOverrides | None) -> MemoryConfig:
    memory = config.get(MEMORY)
    if overrides is None:
        return memory
    changes: dict[str, Any] = dict(overrides.memory_fields)
    if overrides.is_on is False:
        changes["user_state"] = None
    elif overrides.is_on or memory.user_state is not None:
        state = memory.user_state or UserState()
        changes["user_state"] = state.model_copy(
            update=dict(overrides.user_state_fields)
        )
    return memory.model_copy(update=changes)


def _resolve_user_memory(
    config: Config, settings: MemoryConfig, own_model: tuple[str, str] | None
) -> UserMemory | None:
    state = settings.user_state
    if state is None:
        return None
    return UserMemory(
        embedder=embedders.choose_embedder(config, state.embed_with),
        extraction_model=_choose_extraction_model(config, state.learn_from, own_model),
        user_state=state,
        memory=settings,
    )


def _choose_extraction_model(
    config: Config, asked: ModelChoice | None, own_model: tuple[str, str] | None
) -> ExtractionModel | None:
    providers = config.get(PROVIDERS)
    chosen = asked or default_model.cheapest_model(providers)
    if chosen is None:
        if own_model is None:
            return None
        chosen = ModelChoice(provider=own_model[0], model=own_model[1])
    return ExtractionModel(chosen.provider, providers[chosen.provider], chosen.model)
