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
        provider_config("groq"), ["seed", "logprobs"]
    ) == ["logprobs"]


@pytest.mark.parametrize("kind", KIND_NAMES)
def test_common_parameters_are_supported_everywhere(kind: str):
    common = ["temperature", "top_p", "max_tokens", "stop", "tool_choice"]
    assert registry.find_unsupported_parameters(provider_config(kind), common) == []


async def test_unsupported_parameter_is_refused_before_any_call(fake):
    with pytest.raises(Invalid, match="does not support 'seed'") as caught:
        await collect_events(
            fake.provider("deepseek"), model_request(parameters={"seed": 0})
        )
    assert caught.value.param == "seed"
    assert caught.value.code == "unsupported_parameter"
    assert fake.requests == []


async def test_unset_parameter_is_not_refused(fake):
    await collect_events(
        fake.provider("deepseek"), model_request(parameters={"seed": None})
    )
    assert "seed" not in fake.requests[0].body


LIMITED = [kind for kind in KIND_NAMES if kind != "openai"]


@pytest.mark.parametrize("kind", LIMITED)
async def test_only_openai_accepts_store_true(fake, kind: str):
    with pytest.raises(Invalid, match="does not support 'store'") as caught:
        await collect_events(
            fake.provider(kind), model_request(parameters={"store": True})
        )
    assert caught.value.param == "store"
    assert fake.requests == []


@pytest.mark.parametrize("kind", LIMITED)
async def test_store_false_is_accepted_and_not_sent(fake, kind: str):
    await collect_events(
        fake.provider(kind), model_request(parameters={"store": False})
    )
    assert "store" not in fake.requests[0].body


@pytest.mark.parametrize("store", [True, False])
async def test_own_servers_receive_store(fake, store: bool):
    await collect_events(fake.provider(), model_request(parameters={"store": store}))
    assert fake.requests[0].body["store"] is store
