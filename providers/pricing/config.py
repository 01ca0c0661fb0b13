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
    """The prices of a model, in US dollars per million tokens."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    input: Usd = Field(description="Prompt tokens.")
    output: Usd = Field(description="Reply tokens.")
    cache_read: Usd | None = Field(
        default=None,
        description="Prompt tokens that the provider reads from its cache. Default: "
        "the price of `input`.",
    )
    cache_write: Usd | None = Field(
        default=None,
        description="Prompt tokens that the provider writes to its cache. Default: "
        "the price of `input`.",
    )
    reasoning: Usd | None = Field(
        default=None, description="Reasoning tokens. Default: the price of `output`."
    )
    request: Usd = Field(default=0, description="The price per call, in US dollars.")


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
    description="Prices of models, by provider and model (`*`: all models of a "
    "provider). They replace those of the bundled price list.",
)
