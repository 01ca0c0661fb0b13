"""The YAML's `limits:` list."""

from decimal import Decimal
from typing import Annotated, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    StringConstraints,
    model_validator,
)

from config.sections import Section

Per = Literal["token", "principal", "agent"]
Count = Annotated[int, Field(ge=0, le=10**15)]


def _require_whole_micro_usd(value: Decimal) -> Decimal:
    """Refuse an amount that is not a whole number of micro-dollars."""
    if value != value.quantize(Decimal("0.000001")):
        raise ValueError("must have at most six decimals")
    return value


Usd = Annotated[
    Decimal,
    Field(ge=0, le=10**9, allow_inf_nan=False),
    AfterValidator(_require_whole_micro_usd),
]


class Limit(BaseModel):
    """A limit for each user, token or agent."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    per: Per = Field(
        description="What the limit applies to: each API `token`, each `principal` "
        "(the user of a request), or each `agent`, with all of its users together."
    )
    name: Annotated[
        str | None, StringConstraints(strip_whitespace=True, min_length=1)
    ] = Field(
        default=None,
        description="Limits only the token with this label, or the user or agent with "
        "this name. Unset: each of them. All limits that match a request apply.",
    )
    requests_per_minute: Count | None = Field(
        default=None,
        description="Maximum requests: turns, and requests to memory and other "
        "endpoints.",
    )
    requests_per_hour: Count | None = Field(
        default=None, description="Maximum requests."
    )
    requests_per_day: Count | None = Field(
        default=None, description="Maximum requests."
    )
    tokens_per_minute: Count | None = Field(
        default=None, description="Maximum tokens of prompts and replies together."
    )
    tokens_per_hour: Count | None = Field(default=None, description="Maximum tokens.")
    tokens_per_day: Count | None = Field(default=None, description="Maximum tokens.")
    tokens_per_month: Count | None = Field(
        default=None, description="Maximum tokens within 30 days."
    )
    usd_per_day: Usd | None = Field(
        default=None,
        description="Maximum dollars per day (UTC). Models without a known price are "
        "refused.",
    )
    usd_per_month: Usd | None = Field(
        default=None,
        description="Maximum dollars per calendar month (UTC). Models without a known "
        "price are refused.",
    )
    concurrent: Annotated[int, Field(ge=1, le=1_000_000)] | None = Field(
        default=None, description="Maximum requests at the same time."
    )

    @model_validator(mode="after")
    def _require_limit(self) -> "Limit":
        values = self.model_dump(exclude={"per", "name"}, exclude_none=True)
        if not values:
            raise ValueError(
                "has no limit: add requests_per_minute, tokens_per_day, usd_per_day "
                "or concurrent"
            )
        return self


LIMITS: Section[tuple[Limit, ...]] = Section(
    key="limits",
    shape=tuple[Limit, ...],
    default=tuple,
    noun="limit",
    fails_closed=True,
    description="How much users, API tokens and agents may use. All limits that match "
    "a request apply.",
)
