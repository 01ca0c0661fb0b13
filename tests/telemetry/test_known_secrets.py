"""Secrets in a configuration are registered for redaction."""

import hashlib

import pytest

from config.config import SERVER
from config.errors import ConfigInvalid
from config.loading import loader, secret_values
from core.text import redaction

YAML = """
providers:
  openai:
    api_key: key-of-openai-1
    headers:
      Authorization: Bearer of-a-header-2
      X-Team: Acme Limited
      X-Place: 0123456789abcdef01234
      X-Route: /a/rather/long/path/20
agents:
  - {name: assistant, provider: openai, model: gpt}
mcp:
  local:
    command: cat
    env: {LOG_LEVEL: warning-and-more, DB_PASSWORD: of-a-child-3}
  remote:
    url: https://example.com/mcp
    oauth:
      mode: static
      authorization_url: https://example.com/a
      token_url: https://example.com/t
      client_id: the-client-id
      client_secret: of-an-app-4
      redirect_uri: http://localhost:8421/mcp/remote/oauth/callback
public_base_url: http://localhost:8421
auth: {mcp_consumer_secret: of-a-backend-5}
memory:
  user_state: {embed_with: {provider: voyage, api_key: of-an-embedder-6}}
"""
SECRETS = {
    "key-of-openai-1",
    "Bearer of-a-header-2",
    "of-a-header-2",
    "of-a-child-3",
    "0123456789abcdef01234",
    "of-an-app-4",
    "of-an-embedder-6",
}
"""All but `mcp_consumer_secret`, of which only a digest is stored."""

NAMES = ["key-of-openai-1", "of-a-header-2", "of-a-child-3", "of-an-app-4"]
KEYS = [hashlib.sha256(name.encode()).hexdigest()[:32] for name in NAMES]
RANDOM = YAML
for name, key in zip(NAMES, KEYS, strict=True):
    RANDOM = RANDOM.replace(name, key)


@pytest.fixture(autouse=True)
def _knows_nothing(monkeypatch):
    monkeypatch.setattr(redaction, "_known_secrets", {})
    monkeypatch.setattr(redaction, "_longest_first", ())


def test_all_secrets_are_found_and_nothing_else(tmp_path):
    config = loader.parse_config(YAML.encode(), tmp_path / "c.yaml")
    assert set(secret_values.find_secrets(config.values)) == SECRETS


def test_secrets_are_found_during_concurrent_reads(tmp_path):
    server = loader.parse_config(YAML.encode(), tmp_path / "c.yaml").values["mcp"][
        "local"
    ]
    found = secret_values.find_secrets(server)
    assert next(found) == "of-a-child-3"
    assert server.digest  # It is written down in the server's own map.
    assert list(found) == []


def test_parsing_registers_random_keys(tmp_path):
    loader.parse_config(RANDOM.encode(), tmp_path / "c.yaml")
    for secret in KEYS:
        assert secret not in redaction.redact_own(f"it is {secret}")
    assert redaction.redact_own("Acme Limited") == "Acme Limited"


def test_parsing_registers_no_guessable_secret(tmp_path):
    loader.parse_config(YAML.encode(), tmp_path / "c.yaml")
    assert redaction._known_secrets == {}
    loader.parse_sections(YAML.encode(), (SERVER,))
    assert redaction._known_secrets == {}


def test_parsing_sections_registers_all_keys() -> None:
    config = loader.parse_sections(RANDOM.encode(), (SERVER,))
    assert config.get(SERVER).port == 8421
    assert config.values.keys() <= {"server", "vars"}
    for secret in KEYS:
        assert secret not in redaction.redact_own(f"it is {secret}")
    for word in ("Acme Limited", "warning-and-more", "/a/rather/long/path/20"):
        assert redaction.redact_own(word) == word


def test_invalid_file_still_registers_its_keys(tmp_path):
    broken = RANDOM.replace("model: gpt", "modell: gpt").encode()
    with pytest.raises(ConfigInvalid):
        loader.parse_config(broken, tmp_path / "c.yaml")
    assert redaction.redact_own(KEYS[0]) == "[redacted]"
