import pytest

from core.errors import Invalid
from providers import registry, supported_parameters
from providers.config import KIND_NAMES, ProviderConfig

from .conftest import asking, said


def of(kind: str) -> ProviderConfig:
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
def test_it_knows_what_a_kind_does_not_take(kind: str, names: list[str]):
    asked = ["temperature", *names, "max_tokens"]
    assert supported_parameters.unsupported_parameters(of(kind), asked) == names


@pytest.mark.parametrize("address", [None, "http://box/v1"])
def test_some_take_everything(address: str | None):
    provider = ProviderConfig(kind="openai", api_key="k", base_url=address)
    assert (
        supported_parameters.unsupported_parameters(
            provider, [*registry.PARAMETERS, "of_tomorrow"]
        )
        == []
    )


def test_what_no_kind_knows_is_refused_by_those_that_are_known():
    assert supported_parameters.unsupported_parameters(
        of("groq"), ["seed", "logprobs"]
    ) == ["logprobs"]


@pytest.mark.parametrize("kind", KIND_NAMES)
def test_all_take_what_every_client_sends(kind: str):
    common = ["temperature", "top_p", "max_tokens", "stop", "tool_choice"]
    assert supported_parameters.unsupported_parameters(of(kind), common) == []


async def test_a_refused_parameter_is_named_before_any_call(fake):
    with pytest.raises(Invalid, match="does not take 'seed'") as caught:
        await said(fake.provider("deepseek"), asking(parameters={"seed": 0}))
    assert caught.value.param == "seed"
    assert caught.value.code == "unsupported_parameter"
    assert fake.requests == []


async def test_an_unset_parameter_is_not_refused(fake):
    await said(fake.provider("deepseek"), asking(parameters={"seed": None}))
    assert "seed" not in fake.requests[0].body


LIMITED = [kind for kind in KIND_NAMES if kind != "openai"]


@pytest.mark.parametrize("kind", LIMITED)
async def test_nobody_but_openai_is_asked_to_keep_a_copy(fake, kind: str):
    with pytest.raises(Invalid, match="does not take 'store'") as caught:
        await said(fake.provider(kind), asking(parameters={"store": True}))
    assert caught.value.param == "store"
    assert fake.requests == []


@pytest.mark.parametrize("kind", LIMITED)
async def test_keeping_no_copy_is_what_they_do_unasked(fake, kind: str):
    await said(fake.provider(kind), asking(parameters={"store": False}))
    assert "store" not in fake.requests[0].body


@pytest.mark.parametrize("store", [True, False])
async def test_servers_that_judge_for_themselves_are_told(fake, store: bool):
    await said(fake.provider(), asking(parameters={"store": store}))
    assert fake.requests[0].body["store"] is store
