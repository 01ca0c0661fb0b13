"""The line of a turn in the log."""

import logging

from telemetry import logs
from tests.telemetry.turns import deep, model_call, record, tool_call


def test_a_turn_is_a_line_in_the_log(caplog):
    caplog.set_level(logging.INFO)
    turn = record(*deep(), user_message="secret")
    logs.turn_ended(turn)
    [line] = caplog.messages
    assert line == (
        f"turn {turn.turn_id} of assistant: ok in 1.25 s, 200 + 40 tokens, 5 tool calls"
    )


def test_nothing_that_was_said_is_in_the_log(caplog):
    caplog.set_level(logging.DEBUG)
    calls = [
        tool_call("n", arguments="secret", result="secret", error="secret"),
        model_call(error="secret"),
    ]
    logs.turn_ended(
        record(*calls, user_message="secret", error="secret", thread="secret")
    )
    assert "secret" not in caplog.text
