"""The log line of a turn."""

import logging
import uuid

from telemetry.log_output import logs
from tests.telemetry.sample_turns import (
    make_record,
    model_call,
    nested_calls,
    tool_call,
)


def lines(caplog):
    """The log lines about turns, without those of other threads."""
    return [record for record in caplog.records if record.name == logs.__name__]


def test_turn_is_one_log_line(caplog):
    caplog.set_level(logging.INFO)
    turn = make_record(*nested_calls(), user_message="secret")
    logs.log_turn(turn)
    [line] = lines(caplog)
    assert line.getMessage() == (
        f"turn {turn.turn_id} of assistant: ok in 1.25 s, 200 tokens in, 40 out, "
        "5 tool calls, $0.001500"
    )


def test_log_line_has_the_token_and_omits_unknown_cost(caplog):
    caplog.set_level(logging.INFO)
    logs.log_turn(make_record(token_id=uuid.uuid4(), cost_micro_usd=None))
    [line] = lines(caplog)
    assert line.getMessage().endswith(
        f"0 tool calls, token {line.fields['token_id'][:8]}"
    )
    assert "cost_micro_usd" not in line.fields


def test_json_log_fields_of_a_turn(caplog):
    caplog.set_level(logging.INFO)
    turn = make_record(*nested_calls())
    logs.log_turn(turn)
    [line] = lines(caplog)
    assert line.fields == {
        "turn_id": str(turn.turn_id),
        "agent": "assistant",
        "outcome": "ok",
        "seconds": 1.25,
        "input_tokens": 200,
        "output_tokens": 40,
        "tool_calls": 5,
        "cost_micro_usd": 1_500,
    }


def test_conversation_content_is_not_logged(caplog):
    caplog.set_level(logging.DEBUG)
    calls = [
        tool_call("n", arguments="secret", result="secret", error="secret"),
        model_call(error="secret"),
    ]
    logs.log_turn(
        make_record(*calls, user_message="secret", error="secret", thread="secret")
    )
    assert "secret" not in caplog.text
