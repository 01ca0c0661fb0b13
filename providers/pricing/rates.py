"""What the tokens of a call cost: exact integers, rounded once."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal

from core.events import Usage


@dataclass(frozen=True, slots=True)
class Rates:
    """Prices of a token of each sort, and of a call, in parts of a micro-dollar.

    A dollar per million tokens is a micro-dollar per token.
    """

    parts_per_micro_usd: int
    """How many parts make a micro-dollar: a power of ten that makes all whole."""
    input: int
    output: int | None
    """None where there is no price, as with a model that only embeds."""
    cache_read: int
    cache_write: int
    reasoning: int | None
    request: int

    def cost(self, usage: Usage) -> int | None:
        """Return what a call cost in micro-dollars, half a one rounded to even."""
        read, write = usage.cache_read_tokens, usage.cache_write_tokens
        # What is cached is part of the prompt, and thinking is part of the reply.
        plain = max(0, usage.input_tokens - read - write)
        total = self.request + plain * self.input
        total += read * self.cache_read + write * self.cache_write
        if usage.output_tokens:
            if self.output is None or self.reasoning is None:
                return None
            thought = usage.reasoning_tokens
            total += max(0, usage.output_tokens - thought) * self.output
            total += thought * self.reasoning
        return divide_half_even(total, self.parts_per_micro_usd)

    def max_cost(self, input_tokens: int, output_tokens: int) -> int | None:
        """Return the most that so many tokens cost, whatever sort they turn out."""
        total = self.request
        total += input_tokens * max(self.input, self.cache_read, self.cache_write)
        if output_tokens:
            if self.output is None or self.reasoning is None:
                return None
            total += output_tokens * max(self.output, self.reasoning)
        return divide_half_even(total, self.parts_per_micro_usd)


def divide_half_even(value: int, parts: int) -> int:
    """Divide a value that is not negative; a half goes to the even neighbour."""
    whole, rest = divmod(value, parts)
    return whole + (2 * rest > parts or (2 * rest == parts and whole % 2 == 1))


def rates_from_usd(
    *,
    input: Decimal,
    output: Decimal | None,
    cache_read: Decimal | None = None,
    cache_write: Decimal | None = None,
    reasoning: Decimal | None = None,
    request: Decimal = Decimal(0),
) -> Rates:
    """Return rates from dollars per million tokens, and dollars per request.

    What is unset costs what the sort does that it is a part of.
    """
    cache_read = input if cache_read is None else cache_read
    cache_write = input if cache_write is None else cache_write
    reasoning = output if reasoning is None else reasoning
    per_request = request * 1_000_000
    prices = (input, output, cache_read, cache_write, reasoning, per_request)
    parts = 10 ** max(_decimals(price) for price in prices if price is not None)
    return Rates(
        parts_per_micro_usd=parts,
        input=int(input * parts),
        output=None if output is None else int(output * parts),
        cache_read=int(cache_read * parts),
        cache_write=int(cache_write * parts),
        reasoning=None if reasoning is None else int(reasoning * parts),
        request=int(per_request * parts),
    )


def _decimals(price: Decimal) -> int:
    exponent = price.as_tuple().exponent
    return max(0, -exponent) if isinstance(exponent, int) else 0


@dataclass(frozen=True, slots=True)
class RatePeriod:
    """The rates of a time, by how long the prompt is."""

    steps: tuple[tuple[int, Rates], ...]
    """Rates, each for prompts of more tokens than its number; rising from -1."""
    applies: Callable[[datetime], bool] | None = None
    """None is always."""


@dataclass(frozen=True, slots=True)
class Tariff:
    """What a model costs, and who says so."""

    source: str
    periods: tuple[RatePeriod, ...]
    """The first that applies counts, else the last."""

    def rates(self, input_tokens: int, at: datetime | None = None) -> Rates:
        """Return the rates of a prompt so long, at an instant or now."""
        steps = self.period(at).steps
        if len(steps) == 1:
            return steps[0][1]
        return next(rates for start, rates in reversed(steps) if input_tokens > start)

    def period(self, at: datetime | None = None) -> RatePeriod:
        """Return what applies at an instant or now."""
        for period in self.periods:
            if period.applies is None:
                return period
            at = at or datetime.now(UTC)
            if period.applies(at):
                return period
        return self.periods[-1]
