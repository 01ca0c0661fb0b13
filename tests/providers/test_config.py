import pytest
from pydantic import TypeAdapter, ValidationError

from providers import registry
from providers.config import PROVIDERS, ProviderConfig, endpoint_name
from providers.errors import LocalModelDown


def load(value) -> dict[str, ProviderConfig]:
    return TypeAdapter(PROVIDERS.shape).validate_python(value)


def problem(value) -> dict:
    with pytest.raises(ValidationError) as caught:
        load(value)
    (error,) = caught.value.errors()
    return error


def test_kind_defaults_to_the_name():
    assert load({"groq": {"api_key": "gsk"}})["groq"].kind == "groq"


def test_kind_can_be_set():
    providers = load({"ollama": {"kind": "openai", "base_url": "http://box:11434/v1/"}})
    assert providers["ollama"].kind == "openai"
    assert providers["ollama"].base_url == "http://box:11434/v1"


def test_defaults_are_as_documented():
    provider = load({"openai": {"api_key": "sk"}})["openai"]
    assert provider.retries == 2
    assert provider.timeouts.model_dump() == {
        "connect_seconds": 10,
        "first_token_seconds": None,
        "idle_seconds": None,
        "total_seconds": 600,
    }


def test_zero_retries_is_valid():
    assert load({"openai": {"api_key": "sk", "retries": 0}})["openai"].retries == 0


def test_unknown_kind_suggests_a_similar_one():
    error = problem({"antropic": {"api_key": "sk"}})
    assert error["loc"] == ("antropic", "kind")
    assert "did you mean 'anthropic'?" in error["msg"]
    assert "`kind: openai` with a `base_url`" in error["msg"]


def test_unknown_kind_without_match_has_no_suggestion():
    assert "did you mean" not in problem({"zzz": {"api_key": "sk"}})["msg"]


@pytest.mark.parametrize("key", [{}, {"api_key": ""}, {"api_key": "  "}])
def test_api_key_is_required(key: dict):
    assert "needs an api_key" in problem({"openai": key})["msg"]


def test_own_servers_need_no_api_key():
    providers = load({"local": None, "openai": {"base_url": "http://localhost:1/v1"}})
    assert providers["local"].api_key is None
    assert providers["openai"].api_key is None


@pytest.mark.parametrize(
    "fields",
    [
        {"api_keys": "sk"},
        {"base_url": "localhost:11434"},
        {"base_url": "http://host/v1?key=1"},
        {"headers": {"bad name": "x"}},
        {"headers": {"X-Fine": "two\nlines"}},
        {"retries": -1},
        {"timeouts": {"idle_seconds": 0}},
        {"structured_outputs": "maybe"},
    ],
)
def test_invalid_fields_are_refused(fields: dict):
    assert problem({"openai": {"api_key": "sk", **fields}})["msg"]


@pytest.mark.parametrize("odd", ["\n", "\r\n", "\x00", "\x7f", "\udcff"])
def test_api_key_with_invalid_characters_is_refused(odd: str):
    error = problem({"openai": {"api_key": f"sk-hidden{odd}sk-second"}})
    assert error["loc"] == ("openai", "api_key")
    assert "control character" in error["msg"]
    assert "hidden" not in error["msg"]


def test_white_space_around_a_key_is_stripped():
    provider = load({"openai": {"api_key": " sk-plain\n"}})["openai"]
    assert provider.api_key is not None
    assert provider.api_key.get_secret_value() == "sk-plain"


def test_refused_entry_shows_no_secret():
    with pytest.raises(ValidationError) as caught:
        ProviderConfig(kind="openai", api_key="sk-hidden\nsk-second")
    assert "hidden" not in str(caught.value)


@pytest.mark.parametrize("user", ["ada:hush", "ada", ":hush", ""])
def test_credentials_in_the_url_are_refused(user: str):
    error = problem({"openai": {"base_url": f"https://{user}@model.test/v1"}})
    assert error["loc"] == ("openai", "base_url")
    assert "headers:" in error["msg"]
    assert "hush" not in error["msg"]


def test_repr_shows_no_secret():
    provider = load(
        {"openai": {"api_key": "sk-hidden", "headers": {"X-Team": "hush-hush"}}}
    )["openai"]
    for shown in (repr(provider), str(provider), provider.model_dump_json()):
        assert "hidden" not in shown
        assert "hush" not in shown


@pytest.mark.parametrize(
    ("fields", "way"),
    [
        ({"kind": "openai", "api_key": "k"}, "native"),
        ({"kind": "openai", "base_url": "http://box/v1"}, "prompt"),
        ({"kind": "openai", "api_key": "k", "structured_outputs": "prompt"}, "prompt"),
        ({"kind": "groq", "api_key": "k", "structured_outputs": "native"}, "native"),
        ({"kind": "anthropic", "api_key": "k"}, "prompt"),
        ({"kind": "local"}, "native"),
    ],
)
def test_each_kind_has_a_structured_output_mode(fields: dict, way: str):
    assert registry.structured_outputs(ProviderConfig(**fields)) == way


def test_anthropic_refuses_native_structured_outputs():
    fields = {"api_key": "k", "structured_outputs": "native"}
    error = problem({"anthropic": fields})
    assert error["loc"] == ("anthropic", "structured_outputs")
    assert "must be prompt" in error["msg"]


@pytest.mark.parametrize(
    ("kind", "address"),
    [
        ("anthropic", "https://api.anthropic.com/v1/messages"),
        ("cohere", "https://api.cohere.ai/compatibility/v1/chat/completions"),
        ("deepseek", "https://api.deepseek.com/chat/completions"),
        (
            "gemini",
            "https://generativelanguage.googleapis.com/v1beta/openai/chat/completions",
        ),
        ("groq", "https://api.groq.com/openai/v1/chat/completions"),
        ("openai", "https://api.openai.com/v1/chat/completions"),
    ],
)
def test_each_kind_has_a_base_url(kind: str, address: str):
    assert registry.provider_url(ProviderConfig(kind=kind, api_key="k")) == address


def test_local_url_comes_from_the_environment(monkeypatch: pytest.MonkeyPatch):
    local = ProviderConfig(kind="local")
    monkeypatch.setenv(registry.LOCAL_MODEL_URL, "http://127.0.0.1:9/v1/")
    assert registry.provider_url(local) == "http://127.0.0.1:9/v1/chat/completions"
    monkeypatch.delenv(registry.LOCAL_MODEL_URL)
    with pytest.raises(LocalModelDown, match=r"coulisse start"):
        registry.provider_url(local)


def test_explicit_openai_url_is_still_openai():
    written = ProviderConfig(
        kind="openai", api_key="k", base_url="https://api.openai.com/v1"
    )
    assert registry.kind_of(written) is registry.KINDS["openai"]


# Endpoints.


def test_endpoints_inherit_the_providers_fields():
    provider = load(
        {
            "openai": {
                "api_key": "sk-shared",
                "base_url": "http://box/v1",
                "headers": {"X-Team": "all"},
                "endpoints": [
                    {},
                    {"api_key": "sk-own", "headers": {"X-Region": "eu"}},
                    {"name": "far", "base_url": "http://far/v1/", "weight": 0.5},
                ],
            }
        }
    )["openai"]
    assert [
        (
            entry.api_key and entry.api_key.get_secret_value(),
            entry.base_url,
            set(entry.headers),
            entry.endpoints,
        )
        for entry in provider.per_endpoint()
    ] == [
        ("sk-shared", "http://box/v1", {"X-Team"}, ()),
        ("sk-own", "http://box/v1", {"X-Team", "X-Region"}, ()),
        ("sk-shared", "http://far/v1", {"X-Team"}, ()),
    ]
    names = [
        endpoint_name(number, each) for number, each in enumerate(provider.endpoints)
    ]
    assert names == ["1", "2", "far"]


def test_provider_without_endpoints_has_one():
    provider = load({"openai": {"api_key": "sk"}})["openai"]
    assert provider.per_endpoint() == [provider]
    assert load({"openai": {"api_key": "sk", "endpoints": []}})["openai"].per_endpoint()


def test_endpoint_keys_are_sufficient():
    assert load({"openai": {"endpoints": [{"api_key": "a"}, {"base_url": "http://b"}]}})


def test_endpoint_without_a_key_is_named():
    error = problem({"openai": {"endpoints": [{"api_key": "a"}, {"weight": 2}]}})
    assert (
        "endpoints[1] of a provider of kind 'openai' needs an api_key" in error["msg"]
    )


@pytest.mark.parametrize(
    "endpoints", [[{"name": "2"}, {}], [{"name": "a"}, {"name": "a"}]]
)
def test_endpoint_names_are_unique(endpoints):
    error = problem({"openai": {"api_key": "sk", "endpoints": endpoints}})
    assert error["loc"] == ("openai", "endpoints")
    assert "two are named" in error["msg"]


@pytest.mark.parametrize(
    "endpoint",
    [
        {"weight": 0},
        {"weight": -1},
        {"weight": float("inf")},
        {"name": ""},
        {"name": "two words"},
        {"name": "a\n"},
        {"base_url": "box:11434"},
        {"retries": 1},
    ],
)
def test_invalid_endpoint_is_refused(endpoint: dict):
    error = problem({"openai": {"api_key": "sk", "endpoints": [endpoint]}})
    assert error["loc"][:3] == ("openai", "endpoints", 0)


def test_refused_endpoint_shows_no_secret():
    with pytest.raises(ValidationError) as caught:
        ProviderConfig(kind="openai", endpoints=[{"api_key": "sk-hidden\nsk-second"}])
    assert "hidden" not in str(caught.value)
    assert "control character" in str(caught.value)


def test_local_provider_has_no_endpoints():
    assert "must be empty" in problem({"local": {"endpoints": [{}]}})["msg"]


def test_provider_with_a_foreign_endpoint_is_compatible():
    endpoints = [{}, {"base_url": "http://box/v1"}]
    here = load({"openai": {"api_key": "sk", "endpoints": [{}, {}]}})["openai"]
    there = load({"openai": {"api_key": "sk", "endpoints": endpoints}})["openai"]
    assert not registry.has_custom_address(here)
    assert registry.has_custom_address(there)
    assert registry.structured_outputs(there) == "prompt"


def test_breaker_defaults_are_lenient():
    assert load({"openai": {"api_key": "sk"}})["openai"].breaker.model_dump() == {
        "failures": 5,
        "after_seconds": 2,
        "open_seconds": 5,
        "max_open_seconds": 15,
        "probe": "models",
    }


@pytest.mark.parametrize(
    "breaker", [{"failures": -1}, {"open_seconds": 0}, {"after_seconds": -1}]
)
def test_invalid_breaker_is_refused(breaker: dict):
    assert problem({"openai": {"api_key": "sk", "breaker": breaker}})["msg"]
