"""Log probabilities, from the provider to the client."""

import json

import openai
import pytest

from tests.gateway.calls import body, error, post

pytestmark = pytest.mark.database


@pytest.fixture
def sdk(server):
    with openai.OpenAI(
        base_url=f"{server}/v1", api_key="unused", max_retries=0
    ) as client:
        yield client


def token(text: str, log_prob: float) -> dict:
    top = {"token": text, "logprob": log_prob, "bytes": list(text.encode())}
    return {**top, "top_logprobs": [top]}


HELLO = [token("Hel", -0.1), token("lo", -0.2)]


def whole(fake) -> None:
    message = {"role": "assistant", "content": "Hello"}
    choice = {
        "index": 0,
        "message": message,
        "finish_reason": "stop",
        "logprobs": {"content": HELLO, "refusal": None},
    }
    fake.raw(json.dumps({"choices": [choice]}))


def streamed(fake) -> None:
    chunks = [
        {"delta": {"role": "assistant", "content": ""}, "logprobs": None},
        *(
            {"delta": {"content": each["token"]}, "logprobs": {"content": [each]}}
            for each in HELLO
        ),
        {"delta": {}, "finish_reason": "stop"},
    ]
    fake.events(*({"choices": [{"index": 0, **chunk}]} for chunk in chunks))


def ask(sdk, user, **more):
    return sdk.chat.completions.create(**body(user, logprobs=True, **more))


def test_complete_reply_has_them(sdk, fake, user):
    whole(fake)
    completion = ask(sdk, user, top_logprobs=1)
    assert (fake.bodies[-1]["logprobs"], fake.bodies[-1]["top_logprobs"]) == (True, 1)
    (choice,) = completion.choices
    assert [each.to_dict() for each in choice.logprobs.content] == HELLO
    assert choice.logprobs.refusal is None


def test_stream_has_them_with_their_text(sdk, fake, user):
    streamed(fake)
    chunks = list(ask(sdk, user, stream=True))
    found = [
        (choice.delta.content, [each.to_dict() for each in choice.logprobs.content])
        for chunk in chunks
        if (choice := chunk.choices[0]).logprobs is not None
    ]
    assert found == [("Hel", [HELLO[0]]), ("lo", [HELLO[1]])]


def test_probabilities_without_text_are_sent(sdk, fake, user):
    last = {"delta": {}, "finish_reason": "stop", "logprobs": {"content": HELLO}}
    fake.events(
        {"choices": [{"index": 0, "delta": {"content": "Hello"}}]},
        {"choices": [{"index": 0, **last}]},
    )
    chunks = [chunk.choices[0] for chunk in ask(sdk, user, stream=True)]
    with_them = [choice for choice in chunks if choice.logprobs is not None]
    (choice,) = with_them
    assert [each.to_dict() for each in choice.logprobs.content] == HELLO
    assert chunks[-1].finish_reason == "stop"


@pytest.mark.parametrize("value", ["x", [1], {"content": "x"}, {"content": None}, 5])
def test_broken_ones_are_left_out(sdk, fake, user, value):
    choice = {"index": 0, "delta": {"content": "Hi"}, "logprobs": value}
    fake.events({"choices": [choice]}, {"choices": [{"finish_reason": "stop"}]})
    chunks = [chunk.choices[0] for chunk in ask(sdk, user, stream=True)]
    assert "".join(choice.delta.content or "" for choice in chunks) == "Hi"
    assert all(choice.logprobs is None for choice in chunks)


def test_older_endpoint_has_its_own_shape(sdk, fake, user):
    expected = {
        "tokens": ["Hel", "lo"],
        "token_logprobs": [-0.1, -0.2],
        "top_logprobs": [{"Hel": -0.1}, {"lo": -0.2}],
        "text_offset": [0, 3],
    }
    request = {"model": "assistant", "prompt": "hi", "user": user, "logprobs": 1}
    whole(fake)
    completion = sdk.completions.create(**request)
    assert completion.choices[0].logprobs.to_dict() == expected
    streamed(fake)
    chunks = sdk.completions.create(**request, stream=True)
    found = [c.logprobs.to_dict() for each in chunks if (c := each.choices[0]).logprobs]
    assert [each["text_offset"] for each in found] == [[0], [3]]


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"top_logprobs": 1}, "top_logprobs"),
        ({"logprobs": True, "top_logprobs": 21}, "top_logprobs"),
        ({"logprobs": True, "top_logprobs": -1}, "top_logprobs"),
        ({"logprobs": 1}, "logprobs"),
    ],
)
def test_bad_values_are_refused(server, fake, user, fields, param):
    refusal = error(post(server, body(user, **fields)), 400)
    assert refusal["param"] == param
    assert fake.requests == []


def test_providers_without_them_refuse(server, fake, user):
    refusal = error(post(server, body(user, agent="claude", logprobs=True)), 400)
    assert refusal["code"] == "unsupported_parameter"
    assert (
        "provider 'anthropic' (anthropic) does not support 'logprobs'"
        in (refusal["message"])
    )
    assert fake.requests == []
