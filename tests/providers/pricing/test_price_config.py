"""The `prices:` map of the YAML."""

import pytest

from config.errors import ConfigInvalid
from config.loading import loader
from providers.pricing.config import PRICES, Price
from tests.docs.pages import names_in_table

BASE = """
providers:
  openai: {api_key: x}
agents:
  - {name: assistant, provider: openai, model: gpt-4o-mini}
"""


@pytest.fixture
def file(tmp_path):
    return tmp_path / "coulisse.yaml"


def load(file, text: str):
    file.write_text(BASE + text)
    return loader.load_file(file).get(PRICES)


def problem(file, text: str) -> str:
    with pytest.raises(ConfigInvalid) as caught:
        load(file, text)
    (found,) = caught.value.problems
    return f"{found.code} {found.message}"


def test_prices_are_read(file):
    text = 'prices: {openai: {"*": {input: 0, output: 2.5}, o1: {input: 1, output: 2}}}'
    prices = load(file, text)["openai"]
    assert prices["*"] == Price(input=0, output=2.5)
    assert prices["o1"].cache_read is None
    assert prices["o1"].request == 0


def test_missing_prices_key_is_empty(file):
    assert load(file, "") == {}


def test_unknown_provider_is_refused(file):
    found = problem(file, "prices: {opena: {x: {input: 1, output: 1}}}")
    assert found == (
        "coulisse.E111 prices: names provider 'opena', which is not under "
        "providers:; did you mean 'openai'?"
    )


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("prices: {openai: {}}", "coulisse.E009"),
        ("prices: {openai: {x: {input: 1}}}", "coulisse.E010"),
        ("prices: {openai: {x: {input: 1, output: 1, cached: 1}}}", "coulisse.E011"),
        ("prices: {openai: {x: {input: -0.1, output: 1}}}", "coulisse.E009"),
        ("prices: {openai: {x: {input: .inf, output: 1}}}", "coulisse.E009"),
        ("prices: {openai: {x: {input: .nan, output: 1}}}", "coulisse.E009"),
        ("prices: {openai: {x: {input: 1, output: 1000001}}}", "coulisse.E009"),
        ("prices: {openai: {x: {input: cheap, output: 1}}}", "coulisse.E009"),
        ("prices: {openai: {x: {input: 1, output: 1, request: -1}}}", "coulisse.E009"),
    ],
)
def test_invalid_prices_are_refused(file, text, code):
    assert problem(file, text).startswith(code)


def test_every_field_is_documented():
    assert names_in_table("costs.md", "field of a price") == set(Price.model_fields)


def test_embedding_api_can_have_a_price_without_provider(file):
    prices = load(file, "prices: {voyage: {voyage-3.5: {input: 0.06, output: 0}}}")
    assert prices["voyage"]["voyage-3.5"].input == 0.06
