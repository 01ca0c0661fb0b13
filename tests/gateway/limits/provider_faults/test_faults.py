"""Each fault: the reply, the record and the charge."""

import pytest

from core.errors import public_text
from tests.gateway.calls import (
    stored,
)
from tests.gateway.limits.provider_faults.fault_cases import (
    EITHER,
    REPLY_MICRO_USD,
    SLACK_SECONDS,
    SPARE_MICRO_USD,
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
    (call,) = turn.calls
    # A single successful attempt is not recorded.
    assert (len(call.attempts) or 1) == expected.tries
    message = expected.text is not None
    assert stored(user) == (
        [("user", "hi", ""), ("assistant", expected.text, "error")] if message else []
    )
    used = turn.usage.input_tokens + turn.usage.output_tokens
    assert (used > 0) is message
    assert turn.cost_micro_usd == cost(turn.usage)
    assert charged(user) == (used, cost(turn.usage))


@pytest.mark.parametrize(("row", "kind", "stream"), cases("openai"))
def test_fallback_takes_over_before_any_output(
    call_agent, spare, user, row, kind, stream
):
    expected = row.stream if stream else row.whole
    answer = call_agent(row, kind, "guarded", stream=stream)
    if expected.text is not None or not row.is_routed:
        assert answer.error(expected)["code"] == expected.code
        assert spare.requests == []
        assert charged(user)[1] == cost(load_turn(user).usage)
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
