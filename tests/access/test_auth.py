"""The `auth` block of the YAML."""

from pathlib import Path

import pytest

from access.config import AUTH
from config import loader
from config.errors import ConfigInvalid

YAML = """
providers: {openai: {api_key: k}}
agents: [{name: a, provider: openai, model: m}]
auth: AUTH
"""


def load(auth: str):
    text = YAML.replace("AUTH", auth)
    return loader.parse(text.encode(), Path("coulisse.yaml")).get(AUTH)


def test_the_secret_is_read_and_hidden():
    auth = load("{mcp_consumer_secret: ' the-secret '}")
    assert auth.mcp_consumer_secret.get_secret_value() == "the-secret"
    assert "the-secret" not in repr(auth)


@pytest.mark.parametrize("auth", ["", "{}", "{mcp_consumer_secret: ''}", "{proxy: {}}"])
def test_nothing_asked_for_is_nothing_set(auth):
    assert load(auth).mcp_consumer_secret is None


@pytest.mark.parametrize("key", ["admin", "proxy"])
def test_what_is_not_there_yet_is_refused(key):
    with pytest.raises(ConfigInvalid, match=f"'{key}' is not available in this"):
        load(f"{{{key}: {{basic: {{username: u}}}}}}")


@pytest.mark.parametrize("secret", ["two words", "sécret", "a\\nb"])
def test_a_secret_no_header_can_carry_is_refused_and_not_shown(secret):
    with pytest.raises(ConfigInvalid, match="must be visible ASCII") as caught:
        load(f'{{mcp_consumer_secret: "{secret}"}}')
    assert secret not in str(caught.value)
