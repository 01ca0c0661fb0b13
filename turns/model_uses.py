"""The models that the configuration names, and where each is used."""

from collections.abc import Iterator

from agents.config import AGENTS
from config.sections import Config
from judges.config import JUDGES
from memory import memory_settings
from providers.pricing.price_table import ModelUse


def of(config: Config) -> Iterator[ModelUse]:
    """Yield the models of agents, of their fallbacks, of memory, and of judges."""
    agents = config.get(AGENTS)
    for agent in agents.values():
        yield ModelUse(agent.provider, agent.model, agent.name)
        for named in agent.fallbacks:
            other = agents[named] if isinstance(named, str) else named
            yield ModelUse(other.provider, other.model, f"{agent.name} (fallback)")
        memory = memory_settings.resolve_for_agent(config, agent.name).user_memory
        if memory is not None and memory.extraction_model is not None:
            yield ModelUse(
                memory.extraction_model.name, memory.extraction_model.model, "memory"
            )
    for judge in config.get(JUDGES).values():
        yield ModelUse(judge.provider, judge.model, f"{judge.name} (judge)")
    yield from _iterate_embedders(config)


def _iterate_embedders(config: Config) -> Iterator[ModelUse]:
    """Yield the embedders that are remote services."""
    memory = memory_settings.resolve_for_users(config)
    if memory is not None and memory.embedder.api is not None:
        source = memory.embedder.api.source
        yield ModelUse(source.name, source.model, "memory (vectors)", source)
