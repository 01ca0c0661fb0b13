"""Exact costs: each type of token counts once, and the sum is rounded once."""

from decimal import ROUND_HALF_EVEN, Decimal

from hypothesis import given
from hypothesis import strategies as st

from core.events import Usage
from providers.pricing import rates
from providers.wires import usage_parsing

TOKENS = st.integers(0, 10_000_000)
PRICES = st.decimals(
    min_value=0, max_value=1_000_000, places=6, allow_nan=False, allow_infinity=False
)
RATES = st.builds(
    rates.rates_from_usd,
    input=PRICES,
    output=PRICES,
    cache_read=st.none() | PRICES,
    cache_write=st.none() | PRICES,
    reasoning=st.none() | PRICES,
    request=st.just(Decimal(0)) | PRICES,
)


def used(prompt: int, reply: int, **parts: int) -> Usage:
    found = usage_parsing.build_usage(prompt, reply, **parts)
    assert found is not None
    return found


USAGES = st.builds(
    used, TOKENS, TOKENS, cache_read=TOKENS, cache_write=TOKENS, reasoning=TOKENS
)


def test_half_a_micro_dollar_rounds_to_even():
    assert [rates.divide_half_even(n, 10) for n in (4, 5, 6, 14, 15, 16, 25)] == [
        0,
        0,
        1,
        1,
        2,
        2,
        2,
    ]


def test_cached_and_reasoning_tokens_are_counted_once():
    priced = rates.rates_from_usd(
        input=Decimal(1),
        output=Decimal(100),
        cache_read=Decimal("0.1"),
        cache_write=Decimal("1.25"),
        reasoning=Decimal(10),
        request=Decimal("0.000007"),
    )
    # 500 plain, 400 read, 100 written; 30 of text, 20 of reasoning; 7 for the call.
    expected = 500 + 40 + 125 + 3000 + 200 + 7
    assert priced.cost(Usage(1000, 50, 400, 100, 20)) == expected


def test_parts_without_a_price_cost_their_total_rate():
    priced = rates.rates_from_usd(input=Decimal(2), output=Decimal(3))
    assert priced.cost(Usage(10, 5, 4, 3, 2)) == 10 * 2 + 5 * 3


def test_embedding_model_has_no_reply_cost():
    priced = rates.rates_from_usd(input=Decimal("0.02"), output=None)
    assert priced.cost(Usage(1000, 0)) == 20
    assert priced.cost(Usage(1000, 1)) is None
    assert priced.max_cost(1000, 1) is None


@given(RATES, USAGES)
def test_cost_is_exact_and_rounded_once(priced, usage):
    def dollars(rate: int) -> Decimal:
        return Decimal(rate) / priced.parts_per_micro_usd

    plain = usage.input_tokens - usage.cache_read_tokens - usage.cache_write_tokens
    exact = (
        dollars(priced.request)
        + plain * dollars(priced.input)
        + usage.cache_read_tokens * dollars(priced.cache_read)
        + usage.cache_write_tokens * dollars(priced.cache_write)
        + (usage.output_tokens - usage.reasoning_tokens) * dollars(priced.output)
        + usage.reasoning_tokens * dollars(priced.reasoning)
    )
    assert priced.cost(usage) == int(exact.to_integral_value(ROUND_HALF_EVEN))


@given(RATES, USAGES)
def test_cost_is_between_zero_and_the_estimate(priced, usage):
    most = priced.max_cost(usage.input_tokens, usage.output_tokens)
    assert 0 <= priced.cost(usage) <= most


@given(RATES, USAGES, TOKENS, TOKENS)
def test_more_tokens_never_cost_less(priced, usage, prompt, reply):
    more = Usage(
        usage.input_tokens + prompt,
        usage.output_tokens + reply,
        usage.cache_read_tokens,
        usage.cache_write_tokens,
        usage.reasoning_tokens,
    )
    assert priced.cost(more) >= priced.cost(usage)


@given(RATES, st.builds(Usage, TOKENS, TOKENS, TOKENS, TOKENS, TOKENS))
def test_inconsistent_counts_never_cost_less_than_zero(priced, usage):
    assert priced.cost(usage) >= 0
