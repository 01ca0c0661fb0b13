"""Costs of calls, compared with manual sums and with the price library."""

import logging
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import genai_prices
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from config.sections import Config
from core.events import Usage
from providers.config import PROVIDERS, ProviderConfig
from providers.pricing import call_costs
from providers.pricing.config import PRICES, Price
from providers.resilience.error_mapping import ProviderSource
from providers.wires.anthropic import AnthropicWire
from providers.wires.openai_usage import parse_usage as openai_usage

NOON = datetime(2026, 11, 1, 12, tzinfo=UTC)
MICRO = Decimal(1_000_000)


def config(given: dict[str, Any] | None = None, **elsewhere: str) -> Config:
    """Return a config with a provider of each kind, and others at given URLs."""
    kinds = ("anthropic", "cohere", "deepseek", "gemini", "groq", "local", "openai")
    providers = {
        name: ProviderConfig.model_validate({"kind": name, "api_key": "key"})
        for name in kinds
    }
    for name, url in elsewhere.items():
        providers[name] = ProviderConfig.model_validate(
            {"kind": "openai", "base_url": url}
        )
    prices = {
        provider: {model: Price(**price) for model, price in models.items()}
        for provider, models in (given or {}).items()
    }
    values = {PROVIDERS.key: providers, PRICES.key: prices}
    return Config(Path("coulisse.yaml"), values)


PLAIN = config()


@pytest.fixture(autouse=True)
def _no_warnings_logged(monkeypatch):
    monkeypatch.setattr(call_costs, "_warned", set())


def anthropic_usage(raw: dict[str, int]) -> Usage:
    reader = AnthropicWire().reader(ProviderSource("anthropic", "claude"))
    content = [{"type": "text", "text": "Hi"}]
    reader.read_reply({"content": content, "stop_reason": "end_turn", "usage": raw})
    found = reader.end().usage
    assert found is not None
    return found


# Manual sums: a dollar per million tokens is a micro-dollar per token.


def test_openai_cached_tokens_cost_half():
    # prompt_tokens includes the cached ones.
    used = openai_usage(
        {
            "prompt_tokens": 10_000,
            "completion_tokens": 1_000,
            "prompt_tokens_details": {"cached_tokens": 6_000},
        }
    )
    # $0.15 a million of prompt, $0.075 cached, $0.60 of reply.
    expected = 4_000 * 0.15 + 6_000 * 0.075 + 1_000 * 0.6
    assert expected == 1_650
    assert call_costs.call_cost(PLAIN, "openai", "gpt-4o-mini", used) == expected


def test_openai_reasoning_costs_as_output():
    used = openai_usage(
        {
            "prompt_tokens": 100,
            "completion_tokens": 900,
            "completion_tokens_details": {"reasoning_tokens": 800},
        }
    )
    # $1.25 and $10.
    assert call_costs.call_cost(PLAIN, "openai", "gpt-5", used) == 100 * 1.25 + 900 * 10


def test_anthropic_cache_read_and_write_prices():
    # input_tokens leaves both out.
    used = anthropic_usage(
        {
            "input_tokens": 1_000,
            "cache_read_input_tokens": 20_000,
            "cache_creation_input_tokens": 4_000,
            "output_tokens": 500,
        }
    )
    # $3, $0.30, $3.75 and $15.
    expected = 1_000 * 3 + 20_000 * 0.3 + 4_000 * 3.75 + 500 * 15
    assert expected == 31_500
    model = "claude-sonnet-4-5-20250929"
    assert call_costs.call_cost(PLAIN, "anthropic", model, used) == expected


def test_gemini_thinking_tokens_are_charged():
    used = openai_usage(
        {
            "prompt_tokens": 5_000,
            "completion_tokens": 300,
            "total_tokens": 5_700,
            "prompt_tokens_details": {"cached_tokens": 2_000},
        }
    )
    # $0.30, $0.03 cached, $2.50 for 300 tokens of text and 400 of reasoning.
    expected = 3_000 * 0.3 + 2_000 * 0.03 + 700 * 2.5
    assert expected == 2_710
    assert call_costs.call_cost(PLAIN, "gemini", "gemini-2.5-flash", used) == expected


def test_groq_uses_the_price_list_of_the_host():
    used = openai_usage({"prompt_tokens": 1_000, "completion_tokens": 300})
    # $0.05 and $0.08; then $0.15, $0.075 cached and $0.60.
    model = "llama-3.1-8b-instant"
    assert (
        call_costs.call_cost(PLAIN, "groq", model, used)
        == 1_000 * 0.05 + 300 * 0.08
        == 74
    )
    cached = Usage(1_000, 300, cache_read_tokens=200)
    expected = 800 * 0.15 + 200 * 0.075 + 300 * 0.6
    assert (
        call_costs.call_cost(PLAIN, "groq", "openai/gpt-oss-120b", cached)
        == expected
        == 315
    )


def test_deepseek_costs_less_at_night():
    used = openai_usage(
        {
            "prompt_tokens": 1_000,
            "prompt_cache_hit_tokens": 400,
            "prompt_cache_miss_tokens": 600,
            "completion_tokens": 200,
        }
    )
    # $0.27, $0.07 and $1.10 from 0:30 to 16:30 UTC, half of that after.
    by_day = 600 * 0.27 + 400 * 0.07 + 200 * 1.1
    assert by_day == 410
    model = "deepseek-chat"
    assert call_costs.call_cost(PLAIN, "deepseek", model, used, at=NOON) == by_day
    evening = NOON + timedelta(hours=8)
    assert (
        call_costs.call_cost(PLAIN, "deepseek", model, used, at=evening) == by_day / 2
    )


def test_cohere_has_listed_prices():
    # $0.0375 and $0.15: 37.5 and 1.5 make 39.
    assert (
        call_costs.call_cost(PLAIN, "cohere", "command-r7b-12-2024", Usage(1000, 10))
        == 39
    )


def test_long_prompt_uses_the_higher_price_tier():
    model = "claude-sonnet-4-5-20250929"
    # Up to 200,000 tokens $3, $0.30 and $15; beyond, $6, $0.60 and $22.50.
    short = Usage(200_000, 100, cache_read_tokens=50_000)
    expected = 150_000 * 3 + 50_000 * 0.3 + 100 * 15
    assert call_costs.call_cost(PLAIN, "anthropic", model, short) == expected
    long = Usage(200_001, 100, cache_read_tokens=50_000)
    expected = 150_001 * 6 + 50_000 * 0.6 + 100 * 22.5
    assert call_costs.call_cost(PLAIN, "anthropic", model, long) == expected


@pytest.mark.parametrize(
    ("dated", "plain"),
    [
        ("gpt-4o-2024-11-20", "gpt-4o"),
        ("gpt-4o-mini-2024-07-18", "gpt-4o-mini"),
        ("gpt-5-2025-08-07", "gpt-5"),
    ],
)
def test_dated_model_name_has_the_price_of_its_model(dated, plain):
    used = Usage(1_000_000, 1_000)
    cost = call_costs.call_cost(PLAIN, "openai", plain, used)
    assert cost is not None
    assert call_costs.call_cost(PLAIN, "openai", dated, used) == cost


# Comparison with the price library.

LISTED = [
    ("anthropic", "anthropic", "claude-haiku-4-5-20251001"),
    ("anthropic", "anthropic", "claude-sonnet-4-5-20250929"),
    ("cohere", "cohere", "command-r-plus"),
    ("deepseek", "deepseek", "deepseek-chat"),
    ("deepseek", "deepseek", "deepseek-v4-pro"),
    ("gemini", "google", "gemini-2.5-flash-lite"),
    ("gemini", "google", "gemini-2.5-pro"),
    ("groq", "groq", "openai/gpt-oss-120b"),
    ("openai", "openai", "gpt-4o"),
    ("openai", "openai", "gpt-5.4"),
    ("openai", "openai", "gpt-6-sol"),
]


@given(
    st.sampled_from(LISTED),
    st.datetimes(datetime(2026, 1, 1), datetime(2027, 1, 1)),
    *[st.integers(0, 400_000) for _ in range(4)],
)
@settings(max_examples=60)
def test_costs_equal_those_of_the_price_library(
    listed, when, plain, read, write, reply
):
    name, provider_id, model = listed
    at = when.replace(tzinfo=UTC)
    prompt = plain + read + write
    reference = genai_prices.calc_price(
        genai_prices.Usage(
            input_tokens=prompt,
            cache_read_tokens=read,
            cache_write_tokens=write,
            output_tokens=reply,
        ),
        model,
        provider_id=provider_id,
        genai_request_timestamp=at,
    )
    computed = call_costs.call_cost(
        PLAIN, name, model, Usage(prompt, reply, read, write), at=at
    )
    assert computed == round(reference.total_price * MICRO)


# Other addresses.


@pytest.mark.parametrize(
    ("url", "model", "expected"),
    [
        ("https://openrouter.ai/api/v1", "anthropic/claude-sonnet-4.5", 4_500),
        ("https://api.mistral.ai/v1", "mistral-large-latest", 2_600),
        ("https://api.x.ai/v1", "grok-3-mini", 350),
        ("https://api.together.xyz/v1", "meta-llama/Llama-3.3-70B-Instruct-Turbo", 968),
        ("https://mine.openai.azure.com/openai/v1", "gpt-4o-mini", 210),
    ],
)
def test_listed_hosts_are_recognised_by_url(url, model, expected):
    found = call_costs.call_cost(
        config(host=url), "host", model, Usage(1_000, 100), at=NOON
    )
    assert found == expected


def test_explicit_default_url_has_the_kinds_prices():
    written = config(mine="https://api.openai.com/v1")
    assert call_costs.call_cost(written, "mine", "gpt-4o-mini", Usage(1_000, 0)) == 150


def test_free_model_costs_nothing():
    host = config(host="https://openrouter.ai/api/v1")
    free = "meta-llama/llama-3.3-70b-instruct:free"
    assert call_costs.call_cost(host, "host", free, Usage(1_000, 100)) == 0


@pytest.mark.parametrize(
    ("provider", "model"),
    [
        ("openai", "gpt-imaginary"),
        # On the list with no price at all: not a free one.
        ("gemini", "gemma-3-27b-it"),
        # By the hour of speech.
        ("groq", "whisper-large-v3"),
        ("host", "gpt-4o-mini"),
        ("nowhere", "gpt-4o-mini"),
    ],
)
def test_unknown_price_is_none(provider, model):
    host = config(host="http://localhost:11434/v1")
    assert call_costs.call_cost(host, provider, model, Usage(1_000, 100)) is None
    assert call_costs.estimate_cost(host, provider, model, 1_000, 100) is None


def test_local_model_costs_nothing():
    assert call_costs.call_cost(PLAIN, "local", "smollm2-135m", Usage(1_000, 100)) == 0
    assert call_costs.estimate_cost(PLAIN, "local", "anything", 1_000, 100) == 0


# Prices of the YAML.


def test_yaml_price_overrides_the_list():
    own = config({"openai": {"gpt-4o-mini": {"input": 1, "output": 2}}})
    assert call_costs.call_cost(own, "openai", "gpt-4o-mini", Usage(10, 5)) == 20
    assert (
        call_costs.call_cost(own, "openai", "gpt-4o", Usage(10, 5)) == 10 * 2.5 + 5 * 10
    )
    assert (
        call_costs.find_tariff(own, "openai", "gpt-4o-mini").source == "coulisse.yaml"
    )


def test_model_price_overrides_the_wildcard():
    own = config(
        {
            "host": {
                "*": {"input": 1, "output": 1},
                "big": {"input": 5, "output": 5},
            },
            "local": {"*": {"input": 0, "output": 0, "request": 0.25}},
        },
        host="http://localhost:11434/v1",
    )
    assert call_costs.call_cost(own, "host", "small", Usage(1, 1)) == 2
    assert call_costs.call_cost(own, "host", "big", Usage(1, 1)) == 10
    assert call_costs.call_cost(own, "local", "smollm2", Usage(1, 1)) == 250_000


def test_decimal_prices_are_exact():
    own = config({"openai": {"m": {"input": 0.1, "output": 0.7}}})
    assert call_costs.call_cost(own, "openai", "m", Usage(3, 1)) == 1
    assert call_costs.call_cost(own, "openai", "m", Usage(3 * 10**9, 10**9)) == 10**9
    # Half a micro-dollar: to the even one.
    assert call_costs.call_cost(own, "openai", "m", Usage(5, 0)) == 0
    assert call_costs.call_cost(own, "openai", "m", Usage(15, 0)) == 2


def test_configuration_change_applies_prices_at_once():
    one = config({"openai": {"m": {"input": 1, "output": 1}}})
    two = config({"openai": {"m": {"input": 2, "output": 2}}})
    for _ in range(2):
        assert call_costs.call_cost(one, "openai", "m", Usage(1, 0)) == 1
        assert call_costs.call_cost(two, "openai", "m", Usage(1, 0)) == 2


# Estimates.


def test_estimate_uses_the_most_expensive_token_price():
    # All written to the cache, at $1.25; the reply at $5.
    found = call_costs.estimate_cost(PLAIN, "anthropic", "claude-haiku-4-5", 1_000, 100)
    assert found == 1_000 * 1.25 + 100 * 5


def test_estimate_uses_price_tiers():
    model = "claude-sonnet-4-5"
    assert (
        call_costs.estimate_cost(PLAIN, "anthropic", model, 200_000, 0)
        == 200_000 * 3.75
    )
    assert (
        call_costs.estimate_cost(PLAIN, "anthropic", model, 200_002, 0) == 200_002 * 7.5
    )


# Warnings.


def test_unknown_price_is_logged_once(caplog):
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            call_costs.call_cost(PLAIN, "openai", "gpt-imaginary", Usage(1, 1))
            call_costs.estimate_cost(PLAIN, "openai", "gpt-imaginary", 1, 1)
        call_costs.call_cost(PLAIN, "openai", "gpt-other", Usage(1, 1))
    messages = [
        record.getMessage()
        for record in caplog.records
        if record.name == call_costs.__name__
    ]
    assert len(messages) == 2
    assert "gpt-imaginary of provider 'openai'" in messages[0]
    assert "under prices:" in messages[0]
