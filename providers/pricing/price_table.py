"""The prices of the configured models, for the terminal and as JSON."""

import logging
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from django.conf import settings
from django.utils.module_loading import import_string

from config import live
from config.sections import Config
from core.errors import CoulisseError
from core.text import text_table
from providers.pricing import call_costs
from providers.pricing.rates import Rates, Tariff
from providers.resilience.error_mapping import ProviderSource

logger = logging.getLogger(__name__)

UNKNOWN = "unknown"
TOKEN_TYPES = ("input", "output", "cache_read", "cache_write", "reasoning")
HEADER = ("model", "input", "output", "cached", "written", "source", "used by")


@dataclass(frozen=True, slots=True)
class ModelUse:
    """A configured model, and one of its users."""

    provider: str
    model: str
    user: str
    embedder: ProviderSource | None = None
    """The embeddings API; None for text models."""


@dataclass(frozen=True, slots=True)
class PricedModel:
    provider: str
    model: str
    used_by: tuple[str, ...]
    tariff: Tariff | None
    """None if unknown."""

    @property
    def name(self) -> str:
        return f"{self.provider}/{self.model}"

    @property
    def rates(self) -> Rates | None:
        """The current rates of a short prompt."""
        return None if self.tariff is None else self.tariff.rates(0)


def list_models(config: Config) -> list[PricedModel]:
    """Return the models in use, embedding models last.

    `settings.COULISSE_MODEL_USES` lists the functions that find them.
    """
    uses: Callable[[Config], Iterable[ModelUse]]
    uses = import_string(settings.COULISSE_MODEL_USES)
    users: dict[tuple[str, str], list[str]] = {}
    embedders = []
    for use in uses(config):
        if use.embedder is None:
            users.setdefault((use.provider, use.model), []).append(use.user)
        else:
            tariff = call_costs.embedding_tariff(config, use.embedder)
            embedders.append(PricedModel(use.provider, use.model, (use.user,), tariff))
    models = []
    for (provider, model), names in users.items():
        tariff = call_costs.find_tariff(config, provider, model)
        used_by = tuple(dict.fromkeys(names))
        models.append(PricedModel(provider, model, used_by, tariff))
    return [*models, *embedders]


def warm() -> None:
    """Load the prices of the first turns in advance; call it from a thread."""
    try:
        list_models(live.current())
    except CoulisseError as exc:
        logger.warning("could not preload prices, which load on first use: %s", exc)


def unpriced_models(priced: list[PricedModel]) -> list[str]:
    return [each.name for each in priced if each.tariff is None]


def table_lines(priced: list[PricedModel]) -> Iterator[str]:
    """Yield the lines of a table, in dollars per million tokens."""
    rows = [[each.name, *_cells(each), ", ".join(each.used_by)] for each in priced]
    yield from text_table.table_lines(HEADER, rows, right=range(1, 5))


def _cells(priced: PricedModel) -> list[str]:
    tariff, rates = priced.tariff, priced.rates
    if tariff is None or rates is None:
        return [*[UNKNOWN] * 4, "-"]
    prices = (rates.input, rates.output, rates.cache_read, rates.cache_write)
    cells = [
        "-" if price is None else _format_number(_usd_per_million(rates, price))
        for price in prices
    ]
    return [*cells, "; ".join([tariff.source, *_remarks(tariff)])]


def _remarks(tariff: Tariff) -> Iterator[str]:
    steps = tariff.period().steps
    if len(steps) > 1:
        yield f"higher above {steps[1][0]:,} prompt tokens"
    if len(tariff.periods) > 1:
        yield "varies over time"
    rates = steps[0][1]
    if rates.request:
        usd = _usd_per_million(rates, rates.request) / 1_000_000
        yield f"${_format_number(usd)} per call"


def as_json(priced: list[PricedModel]) -> dict[str, Any]:
    return {"object": "prices", "data": [_model_as_json(each) for each in priced]}


def _model_as_json(priced: PricedModel) -> dict[str, Any]:
    tariff, rates = priced.tariff, priced.rates
    return {
        "provider": priced.provider,
        "model": priced.model,
        "used_by": list(priced.used_by),
        "source": tariff and tariff.source,
        "usd_per_million_tokens": rates and _prices_as_json(rates),
        "remarks": list(_remarks(tariff)) if tariff else [],
    }


def _prices_as_json(rates: Rates) -> dict[str, float | None]:
    prices = {name: getattr(rates, name) for name in TOKEN_TYPES}
    return {
        name: None if price is None else float(_usd_per_million(rates, price))
        for name, price in prices.items()
    }


def _usd_per_million(rates: Rates, price: int) -> Decimal:
    """Return dollars per million tokens, which are micro-dollars per token."""
    return Decimal(price) / rates.parts_per_micro_usd


def _format_number(number: Decimal) -> str:
    text = f"{number:f}"
    return text.rstrip("0").rstrip(".") if "." in text else text
