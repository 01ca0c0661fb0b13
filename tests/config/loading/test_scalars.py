"""Numbers and booleans where the configuration expects text."""

import pytest

from config.config import VARS
from config.editing import document, secret_masks
from config.loading import loader
from mcp_bridge.config import MCP
from processes.config import SIDECARS
from tests.config.conftest import COOKS, KITCHEN

WRITTEN = ["1", "1.10", "007", "1_000", "0x1F", "1e3", ".5", "-0", "true", "False"]
WRITTEN += ["yes", "off", "2024-01-02", "12:30"]


@pytest.mark.parametrize("text", WRITTEN)
def test_scalar_is_text_as_written(load, text):
    cook = f"{{name: {text}, speciality: {text}, api_key: {text}, dishes: [{text}]}}"
    [read] = load(f"cooks: [{cook}]\nmenu: {{{text}: 3}}\n").get(COOKS)
    assert (read.name, read.speciality, read.dishes) == (text, text, [text])
    assert read.api_key.get_secret_value() == text


def test_scalar_is_a_number_where_one_is_expected(load):
    config = load("cooks: [{name: 1, pace: 1.10}]\nkitchen: {open: true, stoves: 2}")
    assert config.get(COOKS)[0].pace == 1.1
    assert (config.get(KITCHEN).open, config.get(KITCHEN).stoves) == (True, 2)


@pytest.mark.parametrize("value", ["null", "~", ""])
def test_empty_value_is_not_text(refusal, value):
    assert "'speciality' must be text" in refusal(
        f"cooks: [{{name: a, speciality: {value}}}]\n"
    )


def test_problems_beside_a_scalar_are_still_reported(refusal):
    message = refusal("cooks: [{name: 1, pace: x, dishes: [2, [a]]}]\n")
    assert message.splitlines() == [
        "coulisse.yaml:1:19: cook '1': 'pace' must be a number, not 'x'",
        "coulisse.yaml:1:40: cook '1': 'dishes[1]' must be text, not a list",
    ]


def test_snippet_is_inserted_as_written(load):
    config = load("vars: {version: 1.10}\ncooks: [{name: 'a ${vars.version}'}]\n")
    assert config.get(VARS) == {"version": "1.10"}
    assert config.get(COOKS)[0].name == "a 1.10"


SERVERS = b"""
providers: {openai: {api_key: 12345}}
agents: [{name: 7, provider: openai, model: 4.10, subagents: [8]},
  {name: 8, provider: openai, model: m}]
mcp:
  a: {command: x, args: [8080], env: {DEBUG: 1, VERSION: 1.10, ON: yes, T: true}}
  b: {url: "http://localhost:1", oauth: false, headers: {X-Version: 2}}
sidecars: [{name: s, command: run, args: [--password, 839201746501928374, 80]}]
"""


@pytest.mark.usefixtures("real_sections")
def test_environments_headers_and_models_are_texts(tmp_path):
    config = loader.parse_config(SERVERS, tmp_path / "coulisse.yaml")
    servers = config.get(MCP)
    env = {name: text.get_secret_value() for name, text in servers["a"].env.items()}
    assert env == {"DEBUG": "1", "VERSION": "1.10", "ON": "yes", "T": "true"}
    assert servers["a"].args == ("8080",)
    assert servers["b"].headers["X-Version"].get_secret_value() == "2"
    assert config.get(SIDECARS)["s"].args[-1] == "80"


@pytest.mark.usefixtures("real_sections")
def test_numeric_secrets_are_masked():
    masked = secret_masks.mask_document(document.parse_document(SERVERS)).text
    assert "12345" not in masked
    assert "839201746501928374" not in masked
    assert "8080" in masked
