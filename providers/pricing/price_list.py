"""The bundled price list: genai-prices, from its own file.

Network updates stay off: prices change with the package version.
"""

import functools
import importlib.metadata
from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from providers import registry
from providers.config import KindName, ProviderConfig
from providers.pricing import rates
from providers.pricing.rates import RatePeriod, Rates, Tariff

if TYPE_CHECKING:
    from genai_prices.data_snapshot import DataSnapshot
    from genai_prices.types import ModelInfo, ModelPrice, TieredPrices

PROVIDER_IDS: dict[KindName, str] = {
    "anthropic": "anthropic",
    "cohere": "cohere",
    "deepseek": "deepseek",
    "gemini": "google",
    "groq": "groq",
    "openai": "openai",
}
"""The list's names of the kinds; other servers are identified by address."""

FREE = ":free"
"""The name suffix of free models."""


@functools.cache
def source_name() -> str:
    """Return the name and version of the list."""
    return f"genai-prices {importlib.metadata.version('genai-prices')}"


@functools.cache
def load_snapshot() -> "DataSnapshot":
    """Return the list, loaded once: this takes 25 ms of CPU and 5 MB of a web process,
    and more in a process without pydantic or httpx2.
    """
    from genai_prices import data_snapshot

    return data_snapshot.get_snapshot()


def find_tariff(provider: ProviderConfig, model: str) -> Tariff | None:
    """Return a model's tariff at a provider, None if the list has none.

    Also None if a provider's endpoints have different prices: the endpoint of a call is
    not known in advance.
    """
    first, *others = (_build_tariff(entry, model) for entry in provider.per_endpoint())
    return first if all(other == first for other in others) else None


def find_context_window(provider: ProviderConfig, model: str) -> int | None:
    """Return the tokens of a model's context window, None if the list has none."""
    found = [_find_model(entry, model) for entry in provider.per_endpoint()]
    windows = [None if each is None else each.context_window for each in found]
    return None if None in windows else min(filter(None, windows), default=None)


def _build_tariff(provider: ProviderConfig, model: str) -> Tariff | None:
    info = _find_model(provider, model)
    if info is None:
        return None
    periods = tuple(_iterate_periods(info, is_free=model.endswith(FREE)))
    return Tariff(source_name(), periods) if periods else None


def _find_model(provider: ProviderConfig, model: str) -> "ModelInfo | None":
    if registry.has_custom_address(provider):
        provider_id, url = None, provider.base_url
    else:
        provider_id, url = PROVIDER_IDS.get(provider.kind), None
    if provider_id is None and url is None:
        return None
    try:
        _, info = load_snapshot().find_provider_model(model, None, provider_id, url)
    except LookupError:
        return None
    return info


def _iterate_periods(info: "ModelInfo", *, is_free: bool) -> Iterator[RatePeriod]:
    """Yield the rate periods in order of precedence.

    Yields nothing if one of them has no price.
    """
    if not isinstance(info.prices, list):
        conditions: list[Any] = [(None, info.prices)]
    else:
        conditions = [(c.constraint, c.prices) for c in reversed(info.prices)]
    periods = [
        RatePeriod(steps, None if constraint is None else constraint.active)
        for constraint, prices in conditions
        if (steps := tuple(_iterate_steps(prices, is_free=is_free)))
    ]
    if len(periods) == len(conditions):
        yield from periods


def _iterate_steps(
    prices: "ModelPrice", *, is_free: bool
) -> Iterator[tuple[int, Rates]]:
    """Yield the rates by prompt length; nothing if tokens have no price."""
    given = {k: v for k, v in vars(prices).items() if v is not None}
    if not given and is_free:
        given = {"input_mtok": Decimal(0), "output_mtok": Decimal(0)}
    if "input_mtok" not in given:
        # The list has no prices for subscription models either.
        return
    starts = {t.start for price in given.values() for t in getattr(price, "tiers", ())}
    for start in (-1, *sorted(starts)):
        yield start, _rates(given, start)


def _rates(given: Mapping[str, Any], start: int) -> Rates:
    at = {key: _price_at(price, start) for key, price in given.items()}
    return rates.rates_from_usd(
        input=at["input_mtok"],
        output=at.get("output_mtok"),
        cache_read=at.get("cache_read_mtok"),
        cache_write=at.get("cache_write_mtok"),
        reasoning=at.get("output_reasoning_mtok"),
        request=at.get("requests_kcount", Decimal(0)) / 1000,
    )


def _price_at(price: "Decimal | TieredPrices", start: int) -> Decimal:
    if isinstance(price, Decimal):
        return price
    reached = [tier.price for tier in price.tiers if tier.start <= start]
    return reached[-1] if reached else price.base
