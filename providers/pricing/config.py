"""The `prices:` map of the YAML."""

from collections.abc import Iterable
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from config.sections import Config, Problem, Section
from config.validation.suggestions import did_you_mean
from providers.config import PROVIDERS

ANY_MODEL = "*"

Usd = Annotated[float, Field(ge=0, le=1_000_000, allow_inf_nan=False)]
"""More than a dollar a token is a mistake, and would not fit a database's integer."""


class Price(BaseModel):
    """What a model costs, in US dollars per million tokens."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    input: Usd = Field(description="A million tokens of the prompt.")
    output: Usd = Field(description="A million tokens of the reply.")
    cache_read: Usd | None = Field(
        default=None,
        description="A million tokens of the prompt that the provider had cached. "
        "The price of input unless given.",
    )
    cache_write: Usd | None = Field(
        default=None,
        description="A million tokens of the prompt that the provider puts into its "
        "cache. The price of input unless given.",
    )
    reasoning: Usd | None = Field(
        default=None,
        description="A million tokens of thinking. The price of output unless given.",
    )
    request: Usd = Field(
        default=0, description="Each call, whatever its length, in US dollars."
    )


ModelPrices = Annotated[dict[str, Price], Field(min_length=1)]


EMBEDDING_APIS = ("openai", "voyage")


def check_prices(prices: dict[str, ModelPrices], config: Config) -> Iterable[Problem]:
    """Yield a problem for each price of an unconfigured provider."""
    providers = config.get(PROVIDERS)
    for name in prices:
        # `embed_with` may name these without an entry under `providers:`.
        if name not in providers and name not in EMBEDDING_APIS:
            yield Problem(
                ("prices", name),
                f"prices: names provider '{name}', which is not under providers:"
                f"{did_you_mean(name, providers)}",
                "coulisse.E111",
            )


PRICES: Section[dict[str, ModelPrices]] = Section(
    key="prices",
    shape=dict[str, ModelPrices],
    default=dict,
    noun="provider",
    check=check_prices,
    description="What models cost, by provider and model (`*` is all of a "
    "provider's), where the list that comes with Coulisse is silent or wrong.",
)
