"""Requests behind an open circuit, and disconnects."""

import asyncio
import threading

import pytest

from config import live
from core.errors import public_text
from providers.resilience import backoff
from tests.gateway.calls import (
    body,
    error,
    open_connection,
    stored,
)
from tests.gateway.limits.provider_faults.fault_cases import (
    EITHER,
    LIMITED,
    SLACK_SECONDS,
    SPARE_MICRO_USD,
    Row,
    both,
    charged,
    cost,
)
from tests.gateway.security.test_private_details import assert_public
from tests.gateway.turns.test_turn_record import load_turn
from tests.providers import faults
from tests.providers.faults import HANG

pytestmark = pytest.mark.database

LEFT = Row(
    "open circuit",
    **both(503, "provider_circuit_open", 0),
    do=faults.status(500),
    breaker={"failures": 3, "after_seconds": 0, "open_seconds": 300},
)


@pytest.fixture
def left_alone(call_agent, broken, user):
    """The server of a provider whose circuit breaker is open."""
    answer = call_agent(
        LEFT, "openai", "lone", stream=False, user_name=f"{user}-before"
    )
    assert error(answer.response, 503)["code"] == "provider_overloaded"
    broken.requests.clear()
    return broken


@EITHER
def test_open_circuit_refuses_with_503(call_agent, left_alone, user, stream):
    answer = call_agent(LEFT, "openai", "lone", stream=stream)
    refusal = error(answer.response, 503)
    assert refusal["code"] == "provider_circuit_open"
    assert answer.seconds < SLACK_SECONDS
    assert 1 <= int(answer.headers["retry-after"]) <= 300
    assert answer.headers["x-coulisse-provider"] == "main"
    assert answer.headers["x-coulisse-attempts"] == "0"
    assert left_alone.requests == []
    assert_public(answer.response.text)
    turn = load_turn(user)
    assert (turn.outcome, public_text(turn.error)) == ("error", refusal["message"])
    assert "last error: provider 'main' failed" in turn.error
    assert stored(user) == []
    assert charged(user) == (0, 0)


@EITHER
def test_fallback_answers_behind_an_open_circuit(call_agent, left_alone, user, stream):
    answer = call_agent(LEFT, "openai", "guarded", stream=stream)
    assert answer.response.status_code == 200
    assert answer.headers["x-coulisse-provider"] == "spare"
    assert answer.headers["x-coulisse-attempts"] == "1"
    assert left_alone.requests == []
    assert [len(call.attempts) for call in load_turn(user).calls] == [0, 0]
    assert charged(user) == (10, SPARE_MICRO_USD)


@pytest.mark.parametrize("kind", ["openai", "anthropic"])
@pytest.mark.parametrize(
    ("do", "stream", "message"),
    [
        (faults.silence, True, ""),
        (faults.silence, False, ""),
        (faults.stopped(HANG), True, "Hello there"),
    ],
    ids=["before-stream", "before-whole", "within"],
)
def test_client_disconnect_during_a_fault_is_charged(
    running, stage, broken, user, kind, do, stream, message
):
    broken.default = do
    live.set_current(stage.config(Row("client leaves", None, None), kind))
    request = body(user, "hi", agent="lone", stream=stream, **LIMITED)
    with open_connection(running, request) as caller:
        broken.wait(lambda: broken.requests)
        # Each word has its own frame.
        for word in message.split():
            caller.read_until(word)
    broken.wait(lambda: broken.requests[0].left)
    turn = load_turn(user)
    assert turn.outcome == "cancelled"
    saved = [("assistant", message, "cancelled")] if message else []
    assert stored(user) == [("user", "hi", ""), *saved]
    # The provider has received the prompt, and charges for it.
    assert turn.usage.input_tokens == PROMPT_TOKENS
    assert (turn.usage.output_tokens > 0) is bool(message)
    used = turn.usage.input_tokens + turn.usage.output_tokens
    assert charged(user) == (used, cost(turn.usage))


PROMPT_TOKENS = 5


"""The estimated tokens of "hi"."""


@EITHER
def test_disconnect_between_attempts_costs_nothing(
    running, stage, broken, user, monkeypatch, stream
):
    pausing = threading.Event()

    async def pause(seconds: float) -> None:
        pausing.set()
        await asyncio.Event().wait()

    monkeypatch.setattr(backoff, "sleep", pause)
    broken.default = faults.status(503)
    live.set_current(stage.config(Row("client leaves", None, None), "openai"))
    request = body(user, "hi", agent="lone", stream=stream, **LIMITED)
    with open_connection(running, request):
        assert pausing.wait(60)
    turn = load_turn(user)
    assert turn.outcome == "cancelled"
    assert turn.calls[0].usage is None
    assert charged(user) == (0, 0)
