"""The default length of prompts follows from the windows of the models."""

from pathlib import Path

import pytest

from agents import prompt_limit
from agents.config import AGENTS
from config.loading import loader
from tests.docs.pages import table_rows

YAML = """
providers: {{openai: {{api_key: k}}, other: {{kind: openai, base_url: "http://localhost:1/v1"}}}}
agents:
  - {{name: small, provider: openai, model: gpt-4}}
  - {{name: a, {fields}}}
"""


def limit(fields: str = "") -> int:
    own = "" if fields.startswith("provider") else "provider: openai, "
    text = YAML.format(fields=f"{own}model: gpt-4o{', ' * bool(fields)}{fields}")
    config = loader.parse_config(text.encode(), Path("coulisse.yaml"))
    return prompt_limit.context_tokens(config, config.get(AGENTS)["a"])


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ("", 89_856),
        ("context_tokens: 300", 300),
        ("context_tokens: 1000000", 1_000_000),
        ("context_window: 1000000", 100_000),
        ("context_window: 300", 256),
        ("context_window: 10000, max_tokens: 1000", 6_750),
        ("context_window: 10000, max_tokens: 9000", 3_750),
        ("fallbacks: [small]", 4_608),
        ("fallbacks: [{provider: other, model: m}]", 89_856),
        ("provider: other", 16_000),
        ("provider: other, fallbacks: [small]", 4_608),
        ("fallbacks: [{provider: other, model: m, context_window: 30000}]", 16_875),
    ],
)
def test_prompt_fits_the_windows_of_all_models(fields, expected):
    assert limit(fields) == expected


def test_documented_defaults_are_those_of_the_windows():
    for window, default in table_rows("agents.md", "the model's window"):
        size = window.split()[0].replace(",", "")
        fields = f"context_window: {size}" if size.isdigit() else "provider: other"
        assert limit(fields) == int(default.replace(",", ""))
