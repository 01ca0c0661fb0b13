import pytest

from core.errors import Invalid
from providers import kinds, parameters
from providers.config import KIND_NAMES, ProviderConfig

from .conftest import asking, said


def of(kind: str) -> ProviderConfig:
    return ProviderConfig(kind=kind, api_key="k")


@pytest.mark.parametrize(
    ("kind", "names"),
    [
        ("groq", ["logprobs", "top_logprobs", "logit_bias"]),
        ("deepseek", ["seed", "logit_bias"]),
        ("cohere", ["logit_bias", "top_logprobs", "modalities", "service_tier"]),
        ("gemini", ["seed", "frequency_penalty"]),
        ("anthropic", ["frequency_penalty", "presence_penalty", "seed", "prediction"]),
    ],
)
def test_it_knows_what_a_kind_does_not_take(kind: str, names: list[str]):
    asked = ["temperature", *names, "max_tokens", "store"]
    assert parameters.refused(of(kind), asked) == names


@pytest.mark.parametrize("kind", ["openai", "local"])
def test_some_take_everything(kind: str):
    assert parameters.refused(of(kind), kinds.PARAMETERS) == []


@pytest.mark.parametrize("kind", KIND_NAMES)
def test_all_take_what_every_client_sends(kind: str):
    common = ["temperature", "top_p", "max_tokens", "stop", "store", "tool_choice"]
    assert parameters.refused(of(kind), common) == []


async def test_a_refused_parameter_is_named_before_any_call(fake):
    with pytest.raises(Invalid, match="does not take 'seed'") as caught:
        await said(fake.provider("deepseek"), asking(parameters={"seed": 0}))
    assert caught.value.param == "seed"
    assert caught.value.code == "unsupported_parameter"
    assert fake.requests == []


async def test_an_unset_parameter_is_not_refused(fake):
    await said(fake.provider("deepseek"), asking(parameters={"seed": None}))
    assert "seed" not in fake.requests[0].body


async def test_a_turn_has_one_reply(fake):
    await said(fake.provider(), asking(parameters={"n": 1}))
    with pytest.raises(Invalid) as caught:
        await said(fake.provider(), asking(parameters={"n": 2}))
    assert caught.value.param == "n"
