import pytest

from core.errors import Invalid
from providers import registry
from providers.config import KIND_NAMES, ProviderConfig
from tests.providers.conftest import collect_events, model_request


def provider_config(kind: str) -> ProviderConfig:
    return ProviderConfig(kind=kind, api_key="k")


@pytest.mark.parametrize(
    ("kind", "names"),
    [
        ("groq", ["prediction", "verbosity", "logit_bias"]),
        ("deepseek", ["seed", "logit_bias"]),
        ("cohere", ["logit_bias", "prompt_cache_key", "service_tier"]),
        ("gemini", ["seed", "frequency_penalty"]),
        ("local", ["store"]),
        ("anthropic", ["frequency_penalty", "presence_penalty", "seed", "prediction"]),
    ],
)
def test_unsupported_parameters_are_listed_per_kind(kind: str, names: list[str]):
    asked = ["temperature", *names, "max_tokens"]
    assert registry.find_unsupported_parameters(provider_config(kind), asked) == names


@pytest.mark.parametrize("address", [None, "http://box/v1"])
def test_own_servers_accept_every_parameter(address: str | None):
    provider = ProviderConfig(kind="openai", api_key="k", base_url=address)
    assert (
        registry.find_unsupported_parameters(
            provider, [*registry.PARAMETERS, "of_tomorrow"]
        )
        == []
    )


def test_known_kinds_refuse_unknown_parameters():
    assert registry.find_unsupported_parameters(
        provider_config("groq"), ["seed", "of_tomorrow"]
    ) == ["of_tomorrow"]


@pytest.mark.parametrize("kind", KIND_NAMES)
def test_common_parameters_are_supported_everywhere(kind: str):
    common = ["temperature", "top_p", "max_tokens", "stop", "tool_choice"]
    assert registry.find_unsupported_parameters(provider_config(kind), common) == []


async def test_unsupported_parameter_is_refused_before_any_call(fake):
    with pytest.raises(Invalid, match="does not support 'logit_bias'") as caught:
        await collect_events(
            fake.provider("deepseek"),
            model_request(parameters={"logit_bias": {"5": 1}}),
        )
    assert caught.value.param == "logit_bias"
    assert caught.value.code == "unsupported_parameter"
    assert fake.requests == []


async def test_unset_parameter_is_not_refused(fake):
    await collect_events(
        fake.provider("deepseek"), model_request(parameters={"seed": None})
    )
    assert "seed" not in fake.requests[0].body


LIMITED = [kind for kind in KIND_NAMES if kind != "openai"]


@pytest.mark.parametrize("kind", LIMITED)
@pytest.mark.parametrize("store", [True, False])
async def test_only_openai_receives_store(fake, kind: str, store: bool):
    await collect_events(
        fake.provider(kind), model_request(parameters={"store": store})
    )
    assert "store" not in fake.requests[0].body


@pytest.mark.parametrize("kind", LIMITED)
async def test_hints_and_neutral_values_are_accepted(fake, kind: str):
    provider = fake.provider(kind)
    given = {**registry.NEUTRAL_VALUES, **dict.fromkeys(registry.HINTS, "x")}
    await collect_events(provider, model_request(parameters=given))
    sent = fake.requests[0].body
    unsupported = registry.find_unsupported_parameters(provider, given)
    assert not sent.keys() & set(unsupported)
    assert "of_tomorrow" not in sent


@pytest.mark.parametrize(
    ("kind", "effort"),
    [("gemini", "high"), ("groq", "high"), ("cohere", "high"), ("openai", "max")],
)
async def test_max_effort_is_the_highest_of_the_kind(fake, kind: str, effort: str):
    request = model_request(parameters={"reasoning_effort": "max"})
    await collect_events(fake.provider(kind), request)
    assert fake.requests[0].body["reasoning_effort"] == effort


@pytest.mark.parametrize("store", [True, False])
async def test_own_servers_receive_store(fake, store: bool):
    await collect_events(fake.provider(), model_request(parameters={"store": store}))
    assert fake.requests[0].body["store"] is store
