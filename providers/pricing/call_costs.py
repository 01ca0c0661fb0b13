"""The cost of model calls, in micro-dollars."""

import logging
from datetime import datetime
from decimal import Decimal

from config.sections import Config
from core.events import Usage
from providers.config import PROVIDERS
from providers.pricing import price_list, rates
from providers.pricing.config import ANY_MODEL, PRICES, Price
from providers.pricing.rates import RatePeriod, Tariff
from providers.resilience.error_mapping import ProviderSource

logger = logging.getLogger(__name__)

LOCAL = Tariff(
    "local",
    (RatePeriod(((-1, rates.rates_from_usd(input=Decimal(0), output=Decimal(0))),)),),
)
"""Only models on this machine are known to cost nothing."""

_tariff_cache: tuple[Config | None, dict[tuple[str, str], Tariff | None]] = (None, {})
"""The tariffs of one configuration; an edit of the file replaces it."""

_warned: set[tuple[str, str]] = set()


def call_cost(
    config: Config,
    provider: str,
    model: str,
    usage: Usage,
    *,
    at: datetime | None = None,
) -> int | None:
    """Return the cost of a call in micro-dollars, None without a known price.

    The exact sum is rounded once, half to even. `at` is the time of the call, for
    prices that depend on it: now by default.
    """
    tariff = find_tariff(config, provider, model)
    cost = tariff.rates(usage.input_tokens, at).cost(usage) if tariff else None
    return _checked(cost, provider, model)


def estimate_cost(
    config: Config, provider: str, model: str, input_tokens: int, output_tokens: int
) -> int | None:
    """Return the maximum cost of a call of this size now, None without a known price.

    The actual cost is never higher: the estimate uses the most expensive token type.
    """
    tariff = find_tariff(config, provider, model)
    cost = None
    if tariff is not None:
        cost = tariff.rates(input_tokens).max_cost(input_tokens, output_tokens)
    return _checked(cost, provider, model)


def find_tariff(config: Config, provider: str, model: str) -> Tariff | None:
    """Return a model's tariff: from the file, else from the price list."""
    global _tariff_cache
    owner, tariffs = _tariff_cache
    if owner is not config:
        tariffs = {}
        _tariff_cache = (config, tariffs)
    try:
        return tariffs[provider, model]
    except KeyError:
        tariff = tariffs[provider, model] = _look_up(config, provider, model)
        return tariff


def cache_saving(config: Config, model: str, read: int, write: int) -> int | None:
    """Return what tokens read from and written to a cache saved, at current prices.

    In micro-dollars; `model` is `provider/model`. None without a known price.
    """
    provider, _, name = model.partition("/")
    tariff = find_tariff(config, provider, name)
    return None if tariff is None else tariff.rates(0).cache_saving(read, write)


def embedding_tariff(config: Config, source: ProviderSource) -> Tariff | None:
    """Return an embedding model's price in the YAML, or else in the price list.

    Its API need not be under `providers:`.
    """
    tariff = None
    if source.name in config.get(PROVIDERS) or source.name in config.get(PRICES):
        tariff = find_tariff(config, source.name, source.model)
    return tariff or price_list.find_tariff(source.provider, source.model)


def embedding_cost(config: Config, source: ProviderSource, tokens: int) -> int | None:
    """Return the cost of embedding these tokens now in micro-dollars, None if unknown.

    It is both the estimate and the charge: embeddings have no cache and no output.
    """
    tariff = embedding_tariff(config, source)
    cost = tariff.rates(tokens).cost(Usage(tokens)) if tariff else None
    return _checked(cost, source.name, source.model)


def _look_up(config: Config, provider: str, model: str) -> Tariff | None:
    prices = config.get(PRICES).get(provider, {})
    price = prices.get(model, prices.get(ANY_MODEL))
    if price is not None:
        return Tariff(config.path.name, (RatePeriod(((-1, _rates_of_price(price)),)),))
    entry = config.get(PROVIDERS).get(provider)
    if entry is None:
        return None
    return LOCAL if entry.kind == "local" else price_list.find_tariff(entry, model)


def _rates_of_price(price: Price) -> rates.Rates:
    # Convert from the decimal text in the file: 0.15 has no exact binary form.
    return rates.rates_from_usd(
        **{name: Decimal(repr(usd)) for name, usd in price if usd is not None}
    )


def _checked(cost: int | None, provider: str, model: str) -> int | None:
    """Return the cost; without one, warn once per model."""
    if cost is None and (provider, model) not in _warned:
        _warned.add((provider, model))
        logger.warning(
            "no price is known for %s of provider '%s': its calls are recorded without "
            "a cost, and refused where a budget limits money; set its price under "
            "prices:",
            model,
            provider,
        )
    return cost
