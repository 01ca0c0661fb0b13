"""Completions of a prompt, with OpenAI's client."""

import httpx2
import pytest
from openai import BadRequestError
from openai.types import Completion

from core.events import Usage
from tests.gateway.calls import error, stored

pytestmark = pytest.mark.database


def create(client, user, prompt="Hi", **more):
    return client.completions.create(
        model="assistant", prompt=prompt, user=user, **more
    )


@pytest.mark.parametrize("prompt", ["Hi", ["Hi"]])
def test_completion_has_text_and_usage(client, fake, user, prompt):
    fake.reply("Hel", "lo", usage=Usage(7, 2))
    completion = create(client, user, prompt, max_tokens=5, temperature=0)
    Completion.model_validate(completion.model_dump(), strict=True)
    assert completion.object == "text_completion"
    assert completion.choices[0].text == "Hello"
    assert completion.choices[0].finish_reason == "stop"
    assert completion.usage.total_tokens == 9
    assert fake.bodies[-1]["temperature"] == 0
    assert stored(user) == [("user", "Hi", ""), ("assistant", "Hello", "stop")]


def test_stream_sends_chunks_and_usage(client, fake, user):
    fake.reply("Hel", "lo", usage=Usage(7, 2))
    more = {"stream": True, "stream_options": {"include_usage": True}}
    *chunks, last = create(client, user, **more)
    assert [chunk.choices[0].text for chunk in chunks] == ["Hel", "lo", ""]
    assert chunks[-1].choices[0].finish_reason == "stop"
    assert last.choices == []
    assert last.usage.total_tokens == 9


def test_neutral_values_are_accepted(client, fake, user):
    create(client, user, n=1, best_of=1, echo=False, suffix=None)
    assert {"n", "best_of", "echo", "suffix"} & fake.bodies[-1].keys() == set()


@pytest.mark.parametrize(
    ("more", "param"),
    [
        ({"prompt": ["a", "b"]}, "prompt"),
        ({"prompt": [1, 2]}, "prompt"),
        ({"prompt": " "}, "prompt"),
        ({"suffix": "end"}, "suffix"),
        ({"echo": True}, "echo"),
        ({"best_of": 2}, "best_of"),
        ({"n": 2}, "n"),
        ({"logprobs": 6}, "logprobs"),
        ({"stream_options": {"include_usage": True}}, "stream_options"),
    ],
)
def test_unsupported_value_is_refused(client, user, more, param):
    with pytest.raises(BadRequestError) as caught:
        create(client, user, **more)
    assert caught.value.param == param


def test_missing_prompt_is_refused(server, user):
    answer = httpx2.post(
        f"{server}/v1/completions", json={"model": "assistant"}, verify=False
    )
    assert error(answer, 400)["param"] == "prompt"
