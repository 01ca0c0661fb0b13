"""Token rates as exact integers; a call's cost is rounded once."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from fractions import Fraction

from core.events import Usage


@dataclass(frozen=True, slots=True)
class Rates:
    """Prices per token of each type, and per call, in fractions of a micro-dollar.

    A dollar per million tokens is a micro-dollar per token.
    """

    parts_per_micro_usd: int
    """The fractions per micro-dollar: a power of ten that makes all prices whole."""
    input: int
    output: int | None
    """None without a price, as for embedding models."""
    cache_read: int
    cache_write: int
    reasoning: int | None
    request: int

    def cost(self, usage: Usage) -> int | None:
        """Return the cost of a call in micro-dollars, rounded half to even."""
        read, write = usage.cache_read_tokens, usage.cache_write_tokens
        # Cached tokens are part of the prompt, and reasoning is part of the reply.
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

    def cache_saving(self, read_tokens: int, write_tokens: int) -> int:
        """Return how much less these tokens cost than uncached, in micro-dollars.

        It is negative if the writes cost more than the reads saved.
        """
        parts = read_tokens * (self.input - self.cache_read)
        parts -= write_tokens * (self.cache_write - self.input)
        return round(Fraction(parts, self.parts_per_micro_usd))

    def max_cost(self, input_tokens: int, output_tokens: int) -> int | None:
        """Return the maximum cost of these tokens, whatever their types."""
        total = self.request
        total += input_tokens * max(self.input, self.cache_read, self.cache_write)
        if output_tokens:
            if self.output is None or self.reasoning is None:
                return None
            total += output_tokens * max(self.output, self.reasoning)
        return divide_half_even(total, self.parts_per_micro_usd)


def divide_half_even(value: int, parts: int) -> int:
    """Divide a non-negative value, rounded half to even."""
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

    An unset type costs the same as the type it is part of.
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
    """The rates of a period, by prompt length."""

    steps: tuple[tuple[int, Rates], ...]
    """Rates, each for prompts of more tokens than its threshold; ascending from -1."""
    applies: Callable[[datetime], bool] | None = None
    """None applies always."""


@dataclass(frozen=True, slots=True)
class Tariff:
    source: str
    periods: tuple[RatePeriod, ...]
    """The first applicable period counts, else the last."""

    def rates(self, input_tokens: int, at: datetime | None = None) -> Rates:
        """Return the rates for a prompt length at a time, by default now."""
        steps = self.period(at).steps
        if len(steps) == 1:
            return steps[0][1]
        return next(rates for start, rates in reversed(steps) if input_tokens > start)

    def period(self, at: datetime | None = None) -> RatePeriod:
        """Return the period at a time, by default now."""
        for period in self.periods:
            if period.applies is None:
                return period
            at = at or datetime.now(UTC)
            if period.applies(at):
                return period
        return self.periods[-1]
