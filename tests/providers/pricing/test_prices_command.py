"""`coulisse prices`, and the warning about models without a price."""

import json
from io import StringIO
from pathlib import Path

import pytest
from django.core import checks
from django.core.management import CommandError, call_command
from django.test import override_settings

from providers.checks import check_prices

YAML = """
providers:
  anthropic: {api_key: x}
  openai: {api_key: x}
  deepseek: {api_key: x}
  house: {kind: openai, base_url: "http://localhost:11434/v1"}
  local:
agents:
  - name: assistant
    provider: anthropic
    model: claude-sonnet-4-5-20250929
    fallbacks: [cheap, {provider: house, model: llama}]
  - {name: cheap, provider: openai, model: gpt-4o-mini}
  - {name: night, provider: deepseek, model: deepseek-v3.2}
  - {name: tiny, provider: local, model: smollm2-135m}
memory: {user_state: true}
"""
OWN = """
prices:
  house: {"*": {input: 0.5, output: 1.25, cache_read: 0, request: 0.0002}}
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "coulisse.yaml"
    path.write_text(YAML)
    return path


def run(file: Path, *arguments: str) -> list[str]:
    output = StringIO()
    call_command("prices", "-c", str(file), *arguments, stdout=output)
    return output.getvalue().splitlines()


def cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.split("  ") if cell.strip()]


LISTED = "genai-prices 0.2.3"


def test_every_model_is_listed_with_its_prices(file):
    assert [cells(line) for line in run(file)] == [
        ["model", "input", "output", "cached", "written", "source", "used by"],
        [
            "anthropic/claude-sonnet-4-5-20250929",
            "3",
            "15",
            "0.3",
            "3.75",
            f"{LISTED}; higher above 200,000 prompt tokens",
            "assistant",
        ],
        [
            "openai/gpt-4o-mini",
            "0.15",
            "0.6",
            "0.075",
            "0.15",
            LISTED,
            "assistant (fallback), cheap",
        ],
        ["house/llama", *["unknown"] * 4, "-", "assistant (fallback)"],
        # The learner is the cheapest model that is configured.
        [
            "anthropic/claude-haiku-4-5-20251001",
            "1",
            "5",
            "0.1",
            "1.25",
            LISTED,
            "memory",
        ],
        [
            "deepseek/deepseek-v3.2",
            "0.2288",
            "0.3432",
            "0.2288",
            "0.2288",
            LISTED,
            "night",
        ],
        ["local/smollm2-135m", "0", "0", "0", "0", "local", "tiny"],
        [
            "openai/text-embedding-3-small",
            "0.02",
            "-",
            "0.02",
            "0.02",
            LISTED,
            "memory (vectors)",
        ],
    ]


def test_prices_of_the_file_are_marked(file):
    file.write_text(YAML + OWN)
    [line] = [line for line in run(file, "--check") if "house" in line]
    assert cells(line) == [
        "house/llama",
        "0.5",
        "1.25",
        "0",
        "0.5",
        "coulisse.yaml; $0.0002 per call",
        "assistant (fallback)",
    ]


def test_check_fails_where_a_price_is_unknown(file):
    with pytest.raises(CommandError) as caught:
        run(file, "--check")
    assert str(caught.value) == (
        "no price is known for house/llama; set it under prices:"
    )


def test_prices_can_be_printed_as_json(file):
    prices = json.loads("\n".join(run(file, "--json")))
    by_model = {each["model"]: each for each in prices["data"]}
    assert by_model["llama"] == {
        "provider": "house",
        "model": "llama",
        "used_by": ["assistant (fallback)"],
        "source": None,
        "usd_per_million_tokens": None,
        "remarks": [],
    }
    assert by_model["gpt-4o-mini"]["usd_per_million_tokens"] == {
        "input": 0.15,
        "output": 0.6,
        "cache_read": 0.075,
        "cache_write": 0.15,
        "reasoning": 0.6,
    }


def test_time_dependent_prices_are_marked(file):
    file.write_text(YAML.replace("deepseek-v3.2", "deepseek-chat"))
    [line] = [line for line in run(file) if "deepseek" in line]
    assert "varies over time" in line


def test_invalid_file_is_refused(file):
    file.write_text("providers: {}")
    with pytest.raises(CommandError, match="agents"):
        run(file)


# coulisse check


def warned(file: Path) -> list[checks.CheckMessage]:
    with override_settings(COULISSE_CONFIG=file):
        return check_prices()


def test_check_warns_of_unknown_prices_only(file):
    [warning] = warned(file)
    assert (warning.id, warning.level) == ("coulisse.W111", checks.WARNING)
    assert "house/llama" in warning.msg
    file.write_text(YAML + OWN)
    assert warned(file) == []


def test_check_ignores_invalid_configuration(file):
    file.write_text("providers: {}")
    assert warned(file) == []
    assert warned(file.with_name("none.yaml")) == []
