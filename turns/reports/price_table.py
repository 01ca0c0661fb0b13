"""What the configured models cost, for the terminal and as JSON."""

import logging
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from agents.config import AGENTS
from config import live
from config.sections import Config
from core.errors import CoulisseError
from judges.config import JUDGES
from memory import memory_settings
from providers.pricing import call_costs
from providers.pricing.rates import Rates, Tariff
from turns.reports import text_table

logger = logging.getLogger(__name__)

UNKNOWN = "unknown"
HEAD = ("model", "input", "output", "cached", "written", "price from", "used by")


@dataclass(frozen=True, slots=True)
class Priced:
    """A model that is configured, and what it costs."""

    provider: str
    model: str
    used_by: tuple[str, ...]
    tariff: Tariff | None
    """None is not known."""

    @property
    def name(self) -> str:
        return f"{self.provider}/{self.model}"

    @property
    def rates(self) -> Rates | None:
        """Those of a short prompt, now."""
        return None if self.tariff is None else self.tariff.rates(0)


def of(config: Config) -> list[Priced]:
    """Return the models of agents, of their fallbacks, of memory, and of judges."""
    users: dict[tuple[str, str], list[str]] = {}
    for provider, model, user in _models(config):
        users.setdefault((provider, model), []).append(user)
    found = [
        Priced(*named, tuple(dict.fromkeys(by)), call_costs.tariff_of(config, *named))
        for named, by in users.items()
    ]
    return [*found, *_embedder(config)]


def warm() -> None:
    """Look up ahead what the first turns will cost; call it from a thread."""
    try:
        of(live.current())
    except CoulisseError as exc:
        logger.warning("%s; prices are looked up when they are needed", exc)


def unknown(priced: list[Priced]) -> list[str]:
    """Return the names of the models whose prices nobody knows."""
    return [each.name for each in priced if each.tariff is None]


def _models(config: Config) -> Iterator[tuple[str, str, str]]:
    """Yield each provider and model with who uses it."""
    agents = config.get(AGENTS)
    for agent in agents.values():
        yield agent.provider, agent.model, agent.name
        for named in agent.fallbacks:
            other = agents[named] if isinstance(named, str) else named
            yield other.provider, other.model, f"{agent.name} (fallback)"
        memory = memory_settings.of_agent(config, agent.name).plan
        if memory is not None and memory.learner is not None:
            yield memory.learner.name, memory.learner.model, "memory"
    for judge in config.get(JUDGES).values():
        yield judge.provider, judge.model, f"{judge.name} (judge)"


def _embedder(config: Config) -> Iterator[Priced]:
    """Yield what makes vectors, where that is a service."""
    memory = memory_settings.of_users(config)
    if memory is None or memory.embedder.service is None:
        return
    source = memory.embedder.service.source
    tariff = call_costs.embedding_tariff(config, source)
    yield Priced(source.name, source.model, ("memory (vectors)",), tariff)


def table(priced: list[Priced]) -> Iterator[str]:
    """Yield the lines of a table, in dollars per million tokens."""
    rows = [[each.name, *_cells(each), ", ".join(each.used_by)] for each in priced]
    yield from text_table.lines(HEAD, rows, right=range(1, 5))


def _cells(priced: Priced) -> list[str]:
    tariff, rates = priced.tariff, priced.rates
    if tariff is None or rates is None:
        return [*[UNKNOWN] * 4, "-"]
    sorts = (rates.input, rates.output, rates.cache_read, rates.cache_write)
    told = ["-" if sort is None else _plain(_usd(rates, sort)) for sort in sorts]
    return [*told, "; ".join([tariff.source, *_remarks(tariff)])]


def _remarks(tariff: Tariff) -> Iterator[str]:
    steps = tariff.period().steps
    if len(steps) > 1:
        yield f"dearer beyond {steps[1][0]:,} tokens of prompt"
    if len(tariff.periods) > 1:
        yield "depends on the time"
    if steps[0][1].request:
        yield f"${_plain(_usd(steps[0][1], steps[0][1].request) / 1_000_000)} a call"


def document(priced: list[Priced]) -> dict[str, Any]:
    """Return the same as JSON."""
    return {"object": "prices", "data": [_told(each) for each in priced]}


def _told(priced: Priced) -> dict[str, Any]:
    told: dict[str, Any] = {
        "provider": priced.provider,
        "model": priced.model,
        "used_by": list(priced.used_by),
        "source": None,
        "usd_per_million_tokens": None,
        "remarks": [],
    }
    if priced.tariff is None or priced.rates is None:
        return told
    rates = priced.rates
    sorts = ("input", "output", "cache_read", "cache_write", "reasoning")
    return {
        **told,
        "source": priced.tariff.source,
        "usd_per_million_tokens": {
            sort: None if each is None else float(_usd(rates, each))
            for sort in sorts
            for each in [getattr(rates, sort)]
        },
        "remarks": list(_remarks(priced.tariff)),
    }


def _usd(rates: Rates, sort: int) -> Decimal:
    """Return dollars per million tokens, which are micro-dollars per token."""
    return Decimal(sort) / rates.parts


def _plain(number: Decimal) -> str:
    text = f"{number:f}"
    return text.rstrip("0").rstrip(".") if "." in text else text
