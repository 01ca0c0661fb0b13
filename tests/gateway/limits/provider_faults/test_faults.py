"""Each fault: the reply, the record and the charge."""

import pytest

from core.errors import public_text
from tests.gateway.calls import DONE, read_frames, stored, text_of
from tests.gateway.limits.provider_faults.fault_cases import (
    EITHER,
    REPLY_MICRO_USD,
    SLACK_SECONDS,
    SPARE_MICRO_USD,
    Answer,
    Expected,
    Row,
    cases,
    charged,
    cost,
)
from tests.gateway.security.test_private_details import assert_public
from tests.gateway.turns.test_turn_record import load_turn
from tests.providers import faults

pytestmark = pytest.mark.database

REMEDIES = {
    "refused connection": "check providers.main.base_url",
    "DNS failure": "check providers.main.base_url",
    "TLS error": "check providers.main.base_url",
    "no connection": "providers.main.timeouts.connect_seconds",
    "key refused": "check providers.main.api_key",
    "no credit": "providers.main.api_key",
    "unknown model": "providers.main.base_url",
}


"""Details that are in the turn record for operators, but not in the response."""


@pytest.mark.parametrize(("row", "kind", "stream"), cases("openai", "anthropic"))
def test_provider_fault_is_reported_stored_and_charged(
    call_agent, user, row, kind, stream
):
    expected = row.stream if stream else row.whole
    answer = call_agent(row, kind, "lone", stream=stream)
    assert answer.seconds < expected.seconds + SLACK_SECONDS
    refusal = answer.error(expected)
    assert refusal["code"] == expected.code
    if expected.text is None:
        for name, value in row.headers.items():
            assert answer.headers[name] == value
        assert answer.headers["x-coulisse-attempts"] == str(expected.tries)
    assert answer.headers["x-coulisse-provider"] == "main"
    assert_public(answer.response.text)
    turn = load_turn(user)
    assert (turn.outcome, public_text(turn.error)) == ("error", refusal["message"])
    if row.fault in REMEDIES:
        assert REMEDIES[row.fault] in turn.error
    # A reply that breaks off is asked for again, as often as `retries`.
    assert len(turn.calls) == (1 if expected.text is None else 3)
    # A single successful attempt is not recorded.
    assert {len(call.attempts) or 1 for call in turn.calls} == {expected.tries}
    message = expected.text is not None
    assert stored(user) == (
        [("user", "hi", ""), ("assistant", expected.text, "error")] if message else []
    )
    used = turn.usage.input_tokens + turn.usage.output_tokens
    assert (used > 0) is message
    assert turn.cost_micro_usd == cost(turn.usage)
    assert charged(user) == (used, cost(turn.usage))


@pytest.mark.parametrize(("row", "kind", "stream"), cases("openai"))
def test_fallback_takes_over(call_agent, spare, user, row, kind, stream):
    expected = row.stream if stream else row.whole
    answer = call_agent(row, kind, "guarded", stream=stream)
    if not row.is_routed:
        assert answer.error(expected)["code"] == expected.code
        assert spare.requests == []
        assert charged(user)[1] == cost(load_turn(user).usage)
        return
    if expected.text is not None:
        assert_continued(answer, user, expected)
        return
    assert answer.response.status_code == 200
    assert "Hello from the fake." in answer.response.text.replace('"}', "")
    assert answer.headers["x-coulisse-provider"] == "spare"
    assert answer.headers["x-coulisse-attempts"] == str(expected.tries + 1)
    turn = load_turn(user)
    assert turn.outcome == "ok"
    failed, answered = turn.calls
    assert (failed.provider, len(failed.attempts)) == ("main", expected.tries)
    assert failed.error
    assert failed.usage is None
    assert (answered.provider, answered.model, answered.error) == ("spare", "m2", None)
    assert stored(user)[-1] == ("assistant", "Hello from the fake.", "stop")
    assert turn.cost_micro_usd == SPARE_MICRO_USD
    assert charged(user) == (10, SPARE_MICRO_USD)


def assert_continued(answer: Answer, user: str, expected: Expected) -> None:
    """Check that the fallback has continued what the client had received."""
    whole = f"{expected.text}Hello from the fake."
    *read, done = read_frames(answer.response.content)
    assert (text_of(read), done) == (whole, DONE)
    reasons = [choice["finish_reason"] for each in read for choice in each["choices"]]
    assert reasons.count("stop") == 1
    assert not any("error" in each for each in read)
    turn = load_turn(user)
    assert turn.outcome == "ok"
    calls = [(call.provider, call.error is None) for call in turn.calls]
    tries = 1 if expected.code == "provider_timed_out" else 2
    assert calls == [("main", False)] * tries + [("spare", True)]
    assert stored(user)[-1] == ("assistant", whole, "stop")
    broken = sum(cost(call.usage) for call in turn.calls[:-1])
    assert turn.cost_micro_usd == broken + SPARE_MICRO_USD
    assert charged(user)[1] == turn.cost_micro_usd


@EITHER
def test_provider_is_used_again_after_recovery(call_agent, broken, user, stream):
    broken.then(faults.status(500), faults.reply("Back."))
    row = Row("recovery", None, None)
    answer = call_agent(row, "openai", "lone", stream=stream)
    assert answer.response.status_code == 200
    assert answer.headers["x-coulisse-attempts"] == "2"
    turn = load_turn(user)
    assert turn.outcome == "ok"
    assert [each.error is None for each in turn.calls[0].attempts] == [False, True]
    assert charged(user) == (10, REPLY_MICRO_USD)
