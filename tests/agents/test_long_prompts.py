"""A prompt beyond a model's context window goes to a larger one, or is cut."""

import pytest

from core.messages import Message
from providers.errors import RequestRefused
from tests.agents.fallback_harness import EITHER, text

TOO_LONG = "This model's maximum context length is 8 tokens"
LONG = [
    Message("user", "old " * 200),
    Message("assistant", "older " * 200),
    Message("user", "new"),
]


def fallbacks(*windows):
    names = ("spare", "m2"), ("last", "m3")
    return [
        {"provider": provider, "model": model, "context_window": window}
        for (provider, model), window in zip(names, windows, strict=True)
    ]


@EITHER
async def test_model_with_a_larger_window_answers(stage, fake, spare, last, stream):
    fake.fail(400, TOO_LONG)
    last.reply("Here.")
    windows = fallbacks(500, 9_000)
    events = await stage.take(stream=stream, context_window=1_000, fallbacks=windows)
    assert text(events) == "Here."
    assert [call for call, _ in stage.calls] == ["first/m1", "last/m3"]


@pytest.mark.parametrize("windows", [(500, 1_000), (None, None)])
async def test_request_is_refused_without_a_larger_window(
    stage, fake, spare, last, windows
):
    fake.fail(400, TOO_LONG)
    with pytest.raises(RequestRefused, match="maximum context length"):
        await stage.take(context_window=1_000, fallbacks=fallbacks(*windows))
    assert not spare.requests + last.requests


async def test_known_windows_are_those_of_the_price_list(stage, fake, spare, last):
    fake.fail(400, TOO_LONG)
    spare.reply("Here.")
    fallback = {"provider": "spare", "model": "m2", "context_window": 500_000}
    assert text(await stage.take(fallbacks=[fallback])) == "Here."


@EITHER
@pytest.mark.parametrize("window", [None, 300])
async def test_prompt_is_cut_once(stage, fake, stream, window):
    fake.fail(400, TOO_LONG)
    fake.reply("Here.")
    events = await stage.take(
        stream=stream,
        messages=LONG,
        context_overflow="trim",
        context_window=window,
        fallbacks=[],
    )
    assert text(events) == "Here."
    first, second = (each.body["messages"] for each in fake.requests)
    assert (len(first), [each["content"] for each in second]) == (3, ["new"])


async def test_cut_prompt_that_is_too_long_is_refused(stage, fake):
    fake.fail(400, TOO_LONG)
    fake.fail(400, TOO_LONG)
    with pytest.raises(RequestRefused):
        await stage.take(messages=LONG, context_overflow="trim", fallbacks=[])
    assert len(fake.requests) == 2


async def test_prompt_that_cannot_be_cut_is_sent_once(stage, fake):
    fake.fail(400, TOO_LONG)
    with pytest.raises(RequestRefused):
        await stage.take(context_overflow="trim", fallbacks=[])
    assert len(fake.requests) == 1
