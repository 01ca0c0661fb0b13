"""`coulisse turns` and `coulisse turn`."""

import json
import uuid
from io import StringIO

import pytest
from django.core.management import CommandError, call_command
from django.db import OperationalError

from access.users import identity
from core import ids
from core.events import Usage
from core.ids import UserId
from core.trace import Attempt
from telemetry.models import Turn
from telemetry.schemas import StudioTurn
from tests.telemetry.sample_turns import (
    NOON,
    SECOND,
    model_call,
    nested_calls,
    store_turn,
    tool_call,
)

pytestmark = [pytest.mark.database, pytest.mark.usefixtures("database")]


@pytest.fixture
def name() -> str:
    return f"ada-{uuid.uuid4()}"


@pytest.fixture
def owner(name: str) -> UserId:
    return identity.derive_user_id(name)


def run(*arguments: str, remark: str = "", **options: object) -> list[str]:
    """Return the output lines of a command, and check its remark on stderr."""
    output, remarks = StringIO(), StringIO()
    call_command(*arguments, stdout=output, stderr=remarks, **options)
    assert remarks.getvalue().removesuffix("\n") == remark
    return output.getvalue().splitlines()


# turns


def test_turns_are_listed_newest_first(name, owner):
    first = store_turn(user_id=owner)
    second = store_turn(
        *nested_calls(), user_id=owner, started_at=NOON + SECOND, agent="writer"
    )
    store_turn()
    assert run("turns", user=name) == [
        f"{second.turn_id}  2026-05-06 12:00:01  writer  ok (stop)  1.25 s  "
        "200 in / 40 out  $0.001500  5 model, 5 tools  What is 1 + 1?",
        f"{first.turn_id}  2026-05-06 12:00:00  assistant  ok (stop)  1.25 s  "
        "200 in / 40 out  $0.001500  0 model, 0 tools  What is 1 + 1?",
    ]


def test_list_can_be_filtered(name, owner):
    ok = store_turn(user_id=owner, agent=name)
    failed = store_turn(user_id=owner, agent=name, outcome="error", error="no answer")
    [line] = run("turns", "--failed", "--agent", name)
    assert line.startswith(str(failed.turn_id))
    assert line.endswith("no answer")
    more = "there are more turns; raise --limit to list them"
    [listed] = run("turns", "--user", str(owner), "--limit", "1", remark=more)
    assert listed.split()[0] == str(max(ok.turn_id, failed.turn_id))
    named = store_turn(user_id=owner, request_id=f"of-{name}")
    [line] = run("turns", "--request", f"of-{name}")
    assert line.startswith(str(named.turn_id))


def test_empty_list_says_so(name):
    assert run("turns", user=name, remark="no matching turns") == []


def test_limit_of_zero_is_refused():
    with pytest.raises(CommandError, match="at least 1"):
        run("turns", "--limit", "0")


def test_blank_user_is_refused():
    with pytest.raises(CommandError, match="empty"):
        run("turns", user=" ")


def test_missing_tables_error_names_the_migration_command(monkeypatch):
    def fail(*_):
        raise OperationalError("no such table: telemetry_turn")

    monkeypatch.setattr(Turn.objects._queryset_class, "read_page", fail)
    with pytest.raises(CommandError, match=r"coulisse migrate"):
        run("turns")


# turn


def test_turn_is_printed_as_a_tree(owner):
    turn = store_turn(*nested_calls(), user_id=owner, thread="trip", error="oh")
    assert run("turn", str(turn.turn_id)) == [
        f"{turn.turn_id}  2026-05-06 12:00:00  assistant  ok (stop)  1.25 s  "
        "200 in / 40 out  $0.001500",
        f"    user id: {owner}",
        "    thread: trip",
        "    user: What is 1 + 1?",
        "    error: oh",
        "    openai/gpt-test  0.50 s  100 in / 20 out  $0.000125  tool_calls",
        "    add (mcp calculator)  0.25 s",
        '        arguments: {"a": 1}',
        "        result: 2",
        "    ask_researcher (subagent researcher)  0.25 s",
        '        arguments: {"a": 1}',
        "        openai/gpt-test  0.50 s  100 in / 20 out  $0.000125  tool_calls",
        "        ask_librarian (subagent librarian)  0.25 s",
        '            arguments: {"a": 1}',
        "            openai/gpt-test  0.10 s  stop",
        "                error: 429",
        "            error: the librarian failed",
        "        search (memory)  0.25 s",
        '            arguments: {"a": 1}',
        "            result: nothing",
        "        openai/gpt-test  0.50 s  100 in / 20 out  $0.000125  stop",
        "        result: 2",
        "    slow (mcp calculator)  interrupted",
        '        arguments: {"a": 1}',
        "    openai/gpt-test  0.50 s  100 in / 20 out  $0.000125  stop",
    ]


def test_unknown_cost_is_printed_as_unknown(name, owner):
    call = model_call(cost_micro_usd=None)
    turn = store_turn(call, user_id=owner, cost_micro_usd=None)
    [line] = run("turns", user=name)
    assert "200 in / 40 out  cost unknown  1 model, 0 tools" in line
    head, *_, last = run("turn", str(turn.turn_id))
    assert head.endswith("200 in / 40 out  cost unknown")
    assert last == "    openai/gpt-test  0.50 s  100 in / 20 out  cost unknown  stop"


def test_zero_cost_is_printed_as_zero(name, owner):
    store_turn(user_id=owner, cost_micro_usd=0)
    [line] = run("turns", user=name)
    assert "  $0.000000  " in line


def test_every_attempt_is_printed():
    attempts = [
        Attempt("east", 0.1, "429: slow down\x1b[2J"),
        Attempt("", 0.2, "no answer"),
        Attempt("west", 0.3),
    ]
    turn = store_turn(model_call(attempts=attempts))
    assert run("turn", str(turn.turn_id))[-4:] == [
        "    openai/gpt-test  0.50 s  100 in / 20 out  $0.000125  stop",
        "        attempt 1 at east  0.10 s  429: slow down\\x1b[2J",
        "        attempt 2  0.20 s  no answer",
        "        attempt 3 at west  0.30 s  ok",
    ]


def test_completion_id_is_accepted():
    turn = store_turn()
    for written in (turn.turn_id.hex, f"chatcmpl-{turn.turn_id.hex}"):
        assert run("turn", written)[0].startswith(str(turn.turn_id))


def test_texts_are_truncated_and_control_characters_escaped():
    evil = "one\n\x1b[2Jtwo\x9b31m" + "x" * 1000
    turn = store_turn(tool_call(evil, arguments=evil, result=evil), user_message=evil)
    lines = run("turn", str(turn.turn_id))
    assert len(lines) == 6
    assert not any(c in "".join(lines) for c in "\x1b\x9b\n")
    assert max(map(len, lines)) < 200
    assert lines[-1].endswith("…")


def test_turn_is_available_as_json():
    turn = store_turn(tool_call(result="x" * 1000), model_call(usage=Usage(1, 2)))
    printed = "\n".join(run("turn", str(turn.turn_id), "--json"))
    assert json.loads(printed) == StudioTurn.serialize(turn)


def test_invalid_turn_id_is_refused():
    with pytest.raises(CommandError, match="'abc' is not the id of a turn"):
        run("turn", "abc")


def test_unknown_turn_is_an_error():
    with pytest.raises(CommandError, match="is not recorded, or was deleted"):
        run("turn", str(uuid.uuid4()))


ID = uuid.UUID("5f0cb7a4-27b6-4e0a-9a55-0ab6c9d0b3e1")


@pytest.mark.parametrize(
    "text", [str(ID), ID.hex, f"chatcmpl-{ID.hex}", f"chatcmpl-{ID}", ID.hex.upper()]
)
def test_turn_id_is_parsed(text):
    assert ids.parse_turn_id(text) == ID


@pytest.mark.parametrize(
    "text",
    [
        "",
        "x",
        f"{ID.hex}0",
        ID.hex[1:],
        f"mem_{ID.hex}",
        f" {ID.hex}",
        f"{ID.hex}\n",
        f"{{{ID}}}",
        "\u0661" * 32,
        str(ID).replace("-", "_"),
    ],
)
def test_invalid_turn_id_is_none(text):
    assert ids.parse_turn_id(text) is None
