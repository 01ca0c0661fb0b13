"""A second model is asked if the first one is slow to begin."""

import asyncio
import contextlib

import orjson

from agents import loop
from agents.model_call import OUTPACED
from core import trace
from core.events import TurnFinished
from providers import client
from testing.wires import ScriptedAnswer
from tests.agents.fallback_harness import TWO, Stage, text


def refusal(*, code="content_filter", status=400, **fields) -> ScriptedAnswer:
    """Return an error of the provider: by default, that of its filter."""
    error = {"message": "no", "type": "invalid_request_error", "code": code}
    return ScriptedAnswer(raw=orjson.dumps({"error": error}), status=status, **fields)


SOON = {"hedge_after_seconds": 0.05}
NEVER = {"hedge_after_seconds": 60}


async def test_next_model_answers_if_the_first_is_slow(stage, fake, spare):
    fake.hang("headers")
    spare.reply("Here")
    events = await stage.take(**SOON)
    assert text(events) == "Here"
    assert sum(isinstance(event, TurnFinished) for event in events) == 1
    assert stage.calls == [("first/m1", False), ("spare/m2", True)]
    await fake.until(lambda: fake.requests[0].aborted)


async def test_both_are_charged(stage, fake, spare):
    fake.hang("headers")
    spare.reply("Here")
    events = await stage.take(**SOON)
    loser, winner = trace.iter_model_calls(stage.record)
    assert loser.error == OUTPACED
    assert loser.usage.input_tokens
    assert not loser.usage.output_tokens
    assert events[-1].usage == loser.usage + winner.usage
    assert trace.count_attempts(stage.record) == 2


async def test_first_model_may_still_win(stage, fake, spare):
    fake.hang("headers", "Mine")
    spare.hang("headers")
    turn = asyncio.create_task(stage.take(**SOON))
    await spare.until(lambda: spare.requests)
    fake.release()
    assert text(await turn) == "Mine"
    # The call that answers is the last one.
    assert stage.calls == [("spare/m2", False), ("first/m1", True)]
    await spare.until(lambda: spare.requests[0].aborted)


async def test_quick_model_is_alone(stage, fake, spare):
    fake.reply("Mine")
    assert text(await stage.take(**NEVER)) == "Mine"
    assert not spare.requests


async def test_failure_before_that_time_goes_to_the_fallback(stage, fake, spare):
    fake.fail(503)
    spare.reply("Here")
    assert text(await stage.take(**NEVER)) == "Here"


async def test_failure_of_the_second_is_no_failure(stage, fake, spare, last):
    fake.hang("headers", "Mine")
    spare.fail(503)
    turn = asyncio.create_task(stage.take(**SOON, fallbacks=TWO))
    await spare.until(lambda: spare.requests)
    fake.release()
    assert text(await turn) == "Mine"
    assert stage.calls == [("spare/m2", False), ("first/m1", True)]
    assert not last.requests


async def test_failure_of_both_goes_to_the_third(fake, spare, last):
    stage = Stage(fake, spare, last, timeouts={"first_token_seconds": 0.3})
    fake.hang("headers")
    spare.fail(503)
    last.reply("Here")
    assert text(await stage.take(**SOON, fallbacks=TWO)) == "Here"
    assert [call for call, _ in stage.calls] == ["spare/m2", "first/m1", "last/m3"]


async def test_second_answers_after_the_first_has_failed(stage, fake, spare):
    fake.answer(refusal(status=503, code="busy", hang="headers"))
    spare.hang("headers", "Here")
    turn = asyncio.create_task(stage.take(**SOON))
    await spare.until(lambda: spare.requests)
    fake.release()
    while not stage.record[0].error:  # noqa: ASYNC110  no event reports it
        await asyncio.sleep(0.005)
    spare.release()
    assert text(await turn) == "Here"
    assert stage.calls == [("first/m1", False), ("spare/m2", True)]


async def test_failure_of_both_is_told(fake, spare, last):
    stage = Stage(fake, spare, last, timeouts={"first_token_seconds": 0.3})
    fake.hang("headers")
    spare.fail(503)
    error = await stage.fails(**SOON)
    assert error.code == "provider_overloaded"
    assert "first/m1: provider 'first'" in error.message


async def test_content_filter_ends_the_race(fake, spare, last):
    stage = Stage(fake, spare, last)
    fake.answer(refusal(hang="headers"))
    spare.hang("headers", "I will say it")
    turn = asyncio.create_task(stage.fails(**SOON))
    await spare.until(lambda: spare.requests)
    fake.release()
    assert (await turn).code == "content_filter"


async def test_refused_request_ends_the_race(stage, fake, spare):
    spare.hang("headers", "Here")
    fake.answer(refusal(hang="headers", code="invalid_value"))
    turn = asyncio.create_task(stage.fails(**SOON))
    await spare.until(lambda: spare.requests)
    fake.release()
    assert (await turn).code == "invalid_value"


async def test_client_that_leaves_cancels_both(stage, fake, spare):
    fake.hang("headers")
    spare.hang("headers")
    run = loop.run(stage.task(**SOON))
    turn = asyncio.create_task(anext(run))
    await spare.until(lambda: spare.requests)
    turn.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await turn
    await client.close()
    await fake.until(lambda: fake.requests[0].aborted)
    await spare.until(lambda: spare.requests[0].aborted)
    first, second = trace.iter_model_calls(stage.record)
    assert first.usage.input_tokens
    assert second.usage.input_tokens
    assert first.seconds is second.seconds is None


async def test_whole_replies_are_not_hedged(stage, fake, spare):
    fake.hang("headers", "Mine")
    turn = asyncio.create_task(stage.take(**SOON, stream=False))
    await fake.until(lambda: fake.requests)
    await asyncio.sleep(0.1)  # twice as long
    fake.release()
    assert text(await turn) == "Mine"
    assert not spare.requests


async def test_winner_is_first_in_the_next_round(stage, fake, spare):
    fake.hang("headers")
    spare.call_tool("look")
    spare.reply("Here")
    events = await stage.take(**SOON)
    assert text(events) == "Here"
    assert [call for call, _ in stage.calls] == ["first/m1", "spare/m2", "spare/m2"]


async def test_winner_that_breaks_off_is_rescued(stage, fake, spare):
    fake.hang("headers")
    spare.cut("mid_stream", "The river ")
    fake.reply("ends.")
    assert text(await stage.take(**SOON)) == "The river ends."
