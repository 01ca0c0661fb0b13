"""Resolved memory settings of an agent: its settings, embedder and extraction model.

Resolved once per load of the YAML, because a turn has no time for it.
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
    """The provider's name under `providers:`."""
    provider: ProviderConfig
    model: str


@dataclass(frozen=True, slots=True)
class UserMemory:
    """Enabled memory with everything it needs."""

    embedder: Embedder
    extraction_model: ExtractionModel | None
    """None if no agent is given and no provider has a cheap model."""
    user_state: UserState
    memory: MemoryConfig


class ResolvedMemory(NamedTuple):
    """An agent's settings, and its `UserMemory` if it remembers users."""

    settings: MemoryConfig
    user_memory: UserMemory | None

    @property
    def has_paid_embedder(self) -> bool:
        """Whether the embedder of users' memories is an API."""
        return (
            self.user_memory is not None and self.user_memory.embedder.api is not None
        )


_cache: tuple[Config | None, dict[Any, ResolvedMemory]] = (None, {})
"""The current configuration, and the resolution of each agent's overrides."""


_narrow: tuple[Config | None, bool] = (None, False)
"""The current configuration, and whether it has narrow scopes."""


def resolve(
    config: Config,
    overrides: MemoryOverrides | None = None,
    own_model: tuple[str, str] | None = None,
) -> ResolvedMemory:
    """Return an agent's memory settings under a configuration.

    `own_model` is the agent's provider and model, used for extraction if no cheap model
    is known. Without an agent, returns the global settings.
    """
    global _cache
    cached_config, memories = _cache
    if cached_config is not config:
        memories = {}
        _cache = (config, memories)
    # The overrides belong to the configuration, so they live as long as it does.
    key = id(overrides), own_model
    memory = memories.get(key)
    if memory is None:
        settings = _merge_settings(config, overrides)
        user_memory = _resolve_user_memory(config, settings, own_model)
        memory = memories[key] = ResolvedMemory(settings, user_memory)
    return memory


def resolve_for_agent(config: Config, name: str) -> ResolvedMemory:
    """Return an agent's memory settings; the global ones if the agent was removed."""
    agent = config.get(AGENT_SETTINGS).get(name)
    if agent is None:
        return resolve(config)
    return resolve(config, agent.memory, (agent.provider, agent.model))


def has_narrow_scopes(config: Config) -> bool:
    """Return whether an agent remembers in a narrower scope than the user."""
    global _narrow
    if _narrow[0] is not config:
        scopes = set()
        for name, agent in config.get(AGENT_SETTINGS).items():
            settings, user_memory = resolve_for_agent(config, name)
            if user_memory is not None or agent.memory_tools:
                scopes.add(settings.scope)
        _narrow = config, bool(scopes - {"user"})
    return _narrow[1]


def resolve_for_users(config: Config) -> UserMemory | None:
    """Return the memory for users: the global one, or that of the first agent with one.

    None if no agent remembers users. All agents share the embedder, because they share
    the facts about a user. If each agent extracts with its own model, work for all
    users uses the first agent's model.
    """
    candidates = (
        resolve_for_agent(config, name).user_memory
        for name in ("", *config.get(AGENT_SETTINGS))
    )
    enabled = (user_memory for user_memory in candidates if user_memory is not None)
    first = next(enabled, None)
    if first is None or first.extraction_model is not None:
        return first
    return replace(
        first,
        extraction_model=next(
            (user_memory.extraction_model for user_memory in enabled), None
        ),
    )


def _merge_settings(config: Config, overrides: MemoryOverrides | None) -> MemoryConfig:
    memory = config.get(MEMORY)
    if overrides is None:
        return memory
    changes: dict[str, Any] = dict(overrides.memory_fields)
    if overrides.is_on is False:
        # Agents that remember do not share what its tools save.
        changes |= {"user_state": None, "scope": "agent"}
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
    config: Config, choice: ModelChoice | None, own_model: tuple[str, str] | None
) -> ExtractionModel | None:
    providers = config.get(PROVIDERS)
    chosen = choice or default_model.cheapest_model(providers)
    if chosen is None:
        if own_model is None:
            return None
        chosen = ModelChoice(provider=own_model[0], model=own_model[1])
    return ExtractionModel(chosen.provider, providers[chosen.provider], chosen.model)
