"""The choice of an embedder by `embed_with` and `providers:`, and its errors."""

from pathlib import Path

import numpy as np
import pytest
from pydantic import TypeAdapter, ValidationError

from config.sections import Config
from core.errors import Invalid
from providers.config import PROVIDERS
from providers.embeddings import embedders, minilm, openai, voyage
from providers.embeddings.base import Embedder, EmbedderKind
from providers.embeddings.config import EmbedderConfig
from providers.errors import EmbedderMisconfigured

KEY = "sk-very-secret-0123456789"
ENTRY = {"api_key": KEY}
OLLAMA = {"kind": "openai", "base_url": "http://127.0.0.1:11434/v1"}


def config(**entries) -> Config:
    providers = TypeAdapter(PROVIDERS.shape).validate_python(entries)
    return Config(Path("coulisse.yaml"), {"providers": providers})


def chosen(asked: dict | None = None, **entries) -> Embedder:
    chosen_config = None if asked is None else EmbedderConfig.model_validate(asked)
    return embedders.choose_embedder(config(**entries), chosen_config)


def refused(asked: dict, **entries) -> dict[str, str]:
    """Return the problems by field; `choose_embedder` reports the same."""
    chosen_config = EmbedderConfig.model_validate(asked)
    faults = dict(embedders.find_problems(config(**entries), chosen_config))
    with pytest.raises(EmbedderMisconfigured) as caught:
        embedders.choose_embedder(config(**entries), chosen_config)
    for name, problem in faults.items():
        assert f"embed_with.{name}: {problem}" in str(caught.value)
    assert KEY not in str(caught.value)
    return faults


# The default choice.


def test_openai_is_chosen_when_its_key_is_set():
    embedder = chosen(anthropic=ENTRY, openai=ENTRY)
    assert embedder.id == "openai:text-embedding-3-small:1536"
    assert embedder.dimensions == 1536
    assert not embedder.is_offline


def test_openai_under_another_name_is_chosen():
    embedder = chosen(acme={"kind": "openai", "api_key": KEY})
    assert embedder.id == "openai:text-embedding-3-small:1536"
    assert embedder.api.source.setting("api_key") == "providers.acme.api_key"


def test_first_endpoint_is_used():
    endpoints = [{"api_key": KEY}, {"api_key": "sk-other"}]
    for asked in (None, {"provider": "openai"}):
        embedder = chosen(asked, openai={"endpoints": endpoints})
        assert embedder.id == "openai:text-embedding-3-small:1536"
        assert embedder.api is not None
        key = embedder.api.source.provider.api_key
        assert key is not None
        assert key.get_secret_value() == KEY


def test_openai_with_a_foreign_endpoint_is_not_chosen():
    endpoints = [{}, {"base_url": OLLAMA["base_url"]}]
    assert chosen(openai={**ENTRY, "endpoints": endpoints}).is_offline


def test_compatible_server_is_not_chosen_as_openai():
    embedder = chosen(openai=OLLAMA, anthropic=ENTRY)
    assert embedder.id == "local:minilm-int8:384"
    assert embedder.is_offline
    assert embedders.embedder_warning(embedder) is None


def test_hash_embedder_is_chosen_without_packages(monkeypatch):
    monkeypatch.setattr(minilm, "is_available", lambda: False)
    embedder = chosen(anthropic=ENTRY)
    assert (embedder.id, embedder.dimensions) == ("hash:1024", 1024)
    assert "no semantic understanding" in embedders.embedder_warning(embedder)
    assert "install" in refused({"provider": "local"})["provider"]


def test_minilm_is_unavailable_without_its_packages(monkeypatch):
    monkeypatch.setattr(minilm, "PACKAGES", ("no_such_package",))
    minilm.is_available.cache_clear()
    try:
        assert not minilm.is_available()
    finally:
        monkeypatch.undo()
        minilm.is_available.cache_clear()
    assert minilm.is_available()


def test_entry_names_do_not_affect_the_choice():
    assert chosen(local=OLLAMA, hash=OLLAMA).id == "local:minilm-int8:384"


# An explicit choice.


@pytest.mark.parametrize(
    ("asked", "identity"),
    [
        ({"provider": "openai"}, "openai:text-embedding-3-small:1536"),
        (
            {"provider": "openai", "model": "text-embedding-3-large", "dims": 256},
            "openai:text-embedding-3-large:256",
        ),
        (
            {"provider": "openai", "model": "text-embedding-ada-002"},
            "openai:text-embedding-ada-002:1536",
        ),
        (
            {"provider": "openai", "base_url": "https://api.openai.com/v1/"},
            "openai:text-embedding-3-small:1536",
        ),
        ({"provider": "voyage", "api_key": "pa-1"}, "voyage:voyage-3.5:1024"),
        (
            {"provider": "voyage", "api_key": "pa-1", "model": "voyage-code-2"},
            "voyage:voyage-code-2:1536",
        ),
        (
            {"provider": "voyage", "api_key": "pa-1", "dims": 256},
            "voyage:voyage-3.5:256",
        ),
        ({"provider": "hash"}, "hash:1024"),
        ({"provider": "hash", "dims": 32}, "hash:32"),
        ({"provider": "local"}, "local:minilm-int8:384"),
        ({"provider": "local", "model": "minilm-int8"}, "local:minilm-int8:384"),
        (
            {"provider": "gemini", "model": "gemini-embedding-001", "dims": 3072},
            "gemini:gemini-embedding-001:3072:b8c6bb1e",
        ),
    ],
)
def test_configured_embedder_is_chosen(asked, identity):
    embedder = chosen(asked, openai=ENTRY, gemini=ENTRY)
    assert embedder.id.startswith(identity.removesuffix(":b8c6bb1e"))
    assert str(embedder.dimensions) in embedder.id
    assert KEY not in repr(embedder)


def test_every_known_model_can_be_chosen():
    for name in openai.MODELS:
        assert chosen({"provider": "openai", "model": name}, openai=ENTRY)
    for name in voyage.MODELS:
        assert chosen({"provider": "voyage", "api_key": "pa-1", "model": name})


def test_embedder_id_depends_on_the_address():
    asked = {"model": "nomic-embed-text", "dims": 768}
    here = chosen({"provider": "ollama", **asked}, ollama=OLLAMA)
    renamed = chosen({"provider": "mine", **asked}, mine=OLLAMA)
    there = {**OLLAMA, "base_url": "http://other.test/v1"}
    assert here.id == renamed.id
    assert here.id != chosen({"provider": "ollama", **asked}, ollama=there).id
    assert here.id.startswith("openai:nomic-embed-text:768:")
    assert "11434" not in here.id


def test_similarity_threshold_defaults_per_embedder():
    assert chosen({"provider": "local"}).similarity_threshold == 0.1
    assert chosen({"provider": "hash"}).similarity_threshold == 0.05
    assert (
        chosen({"provider": "hash", "similarity_threshold": 0.0}).similarity_threshold
        == 0.0
    )


def test_entry_takes_precedence_over_a_built_in_name():
    asked = {"provider": "voyage", "model": "voyage-3.5", "dims": 1024}
    embedder = chosen(asked, voyage=OLLAMA)
    assert embedder.id.startswith("openai:voyage-3.5:1024:")


def test_local_provider_entry_does_not_change_minilm():
    asked = {"provider": "local"}
    assert chosen(asked, local={}).id == "local:minilm-int8:384"


# API keys.


def test_openai_uses_the_key_of_its_entry():
    provider = chosen({"provider": "openai"}, openai=ENTRY).api.source.provider
    assert provider.api_key.get_secret_value() == KEY


def test_embed_with_key_takes_precedence():
    asked = {"provider": "openai", "api_key": " sk-other "}
    source = chosen(asked, openai=ENTRY).api.source
    assert source.provider.api_key.get_secret_value() == "sk-other"
    assert source.setting("api_key") == "embed_with.api_key"


def test_entry_secrets_are_not_sent_to_another_address():
    entry = {**ENTRY, "headers": {"X-Team": "secret"}}
    here = {"base_url": "http://elsewhere.test/v1", "model": "m", "dims": 8}
    provider = chosen({"provider": "openai", **here}, openai=entry).api.source
    assert provider.provider.api_key is None
    assert provider.provider.headers == {}


def test_embedding_timeout_is_at_most_a_minute():
    patient = {**ENTRY, "timeouts": {"total_seconds": 600}}
    hasty = {**ENTRY, "timeouts": {"total_seconds": 5}}
    for entry, seconds in ((patient, 60), (hasty, 5)):
        provider = chosen(None, openai=entry).api.source.provider
        assert provider.timeouts.total_seconds == seconds


# Invalid choices.


@pytest.mark.parametrize(
    ("asked", "field", "words"),
    [
        ({"provider": "openai"}, "provider", "needs an api_key here or under"),
        ({"provider": "voyage"}, "api_key", "VOYAGE_API_KEY"),
        ({"provider": "voyag", "api_key": KEY}, "provider", "did you mean 'voyage'?"),
        (
            {"provider": "openai", "api_key": KEY, "model": "text-embedding-3-smal"},
            "model",
            "'text-embedding-3-small'? The models are text-embedding-3-small",
        ),
        (
            {"provider": "voyage", "api_key": KEY, "model": "gpt"},
            "model",
            "voyage-3.5, voyage-3-large",
        ),
        (
            {"provider": "openai", "api_key": KEY, "dims": 5000},
            "dims",
            "from 1 to 1536 dimensions, not 5000",
        ),
        (
            {"provider": "voyage", "api_key": KEY, "dims": 100},
            "dims",
            "256 or 512 or 1024 or 2048",
        ),
        (
            {
                "provider": "openai",
                "api_key": KEY,
                "model": "text-embedding-ada-002",
                "dims": 64,
            },
            "dims",
            "1536",
        ),
        ({"provider": "hash", "model": "m"}, "model", "remove it"),
        ({"provider": "hash", "api_key": KEY}, "api_key", "offline"),
        ({"provider": "local", "base_url": "http://x"}, "base_url", "offline"),
        ({"provider": "local", "model": "big"}, "model", "only 'minilm-int8'"),
        ({"provider": "local", "dims": 100}, "dims", "384"),
        ({"provider": "groq"}, "provider", "kind 'groq', which has no embeddings"),
        ({"provider": "ollama"}, "model", "is required"),
        ({"provider": "ollama", "model": "bge-m3"}, "dims", "of 'bge-m3'"),
        ({"provider": "gemini"}, "model", "is required"),
    ],
)
def test_invalid_embedder_config_reports_fix(asked, field, words):
    faults = refused(asked, groq=ENTRY, ollama=OLLAMA, gemini=ENTRY)
    assert words in faults[field]


def test_all_embedder_problems_are_reported_together():
    assert refused({"provider": "voyage", "model": "x"}).keys() == {"api_key", "model"}


def test_openai_entry_of_another_kind_is_named():
    entry = {"kind": "anthropic", "api_key": KEY}
    faults = refused({"provider": "openai"}, openai=entry)
    assert "providers.openai is of kind 'anthropic'" in faults["provider"]


def test_missing_embedder_config_is_valid():
    assert list(embedders.find_problems(config(), None)) == []


def test_embedder_misconfigured_is_an_invalid_error():
    assert issubclass(EmbedderMisconfigured, Invalid)


@pytest.mark.parametrize(
    "wrong",
    [
        {"dims": 0},
        {"dims": 100_000},
        {"similarity_threshold": 2},
        {"base_url": "ftp://x"},
        {"base_url": "http://ada:pass@x/v1"},
        {"api_key": f"{KEY}\n{KEY}"},
        {"model": ""},
        {"dimensions": 5},
    ],
)
def test_wrong_values_are_refused_without_secrets(wrong):
    with pytest.raises(ValidationError) as caught:
        EmbedderConfig.model_validate({"provider": "openai", "api_key": KEY, **wrong})
    assert KEY not in str(caught.value)


def test_every_field_is_described():
    fields = EmbedderConfig.model_json_schema()["properties"]
    assert all(field["description"] for field in fields.values())


class ConstantEmbedder(EmbedderKind):
    """An embedder with the same row for every text."""

    def problems(self, config, asked, entry):
        """Yield a problem of `dims` only."""
        if asked.dims not in (None, 2):
            yield "dims", "'constant' makes vectors of 2 dimensions"

    def build(self, asked, entry):
        """Return the embedder."""
        return Embedder("constant:2", 2, 0.5)

    async def embed(self, embedder, texts, *, query):
        """Return the same row for each text."""
        return np.ones((len(texts), 2), dtype=np.float32)


async def test_new_embedder_needs_one_class_and_one_registry_line(monkeypatch):
    monkeypatch.setitem(embedders.EMBEDDERS, "constant", ConstantEmbedder())

    embedder = chosen({"provider": "constant"})
    rows = await embedders.embed_texts(embedder, ["tea", " ", "coffee"])

    assert embedder.is_offline
    assert rows == pytest.approx(np.array([[0.5**0.5] * 2, [0, 0], [0.5**0.5] * 2]))
    embedders.preload(embedder)
    with pytest.raises(EmbedderMisconfigured, match="vectors of 2 dimensions"):
        chosen({"provider": "constant", "dims": 3})
    with pytest.raises(EmbedderMisconfigured, match="did you mean 'constant'"):
        chosen({"provider": "constnt"})
