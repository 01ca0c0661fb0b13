"""A stored turn is found by its id after any change of its thread."""

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from core.ids import TurnId, UserId, new_turn_id
from core.messages import Message, ToolCall
from memory.models import StoredMessage
from memory.transcript import message_store, turn_lookup
from memory.transcript.message_rows import NewMessage
from tests.memory.extraction_harness import new_user

pytestmark = [pytest.mark.database, pytest.mark.usefixtures("database")]

CALL = ToolCall("1", "look", "{}")


def append_turn(user_id: UserId, *messages: Message, how: str = "stop") -> TurnId:
    turn_id = new_turn_id()
    entries = [NewMessage(message, 5) for message in messages[:-1]]
    entries.append(NewMessage(messages[-1], 5, agent="a", finish_reason=how))
    message_store.append_turn(user_id, "", turn_id, entries)
    return turn_id


def texts(messages) -> list[str]:
    return [message.text for message in messages]


@pytest.fixture
def user_id() -> UserId:
    return new_user()


def test_turn_is_read_with_earlier_messages(user_id):
    append_turn(user_id, Message("user", "1"), Message("assistant", "one"))
    turn = append_turn(
        user_id,
        Message("user", "2"),
        Message("assistant", "Let me see.", tool_calls=(CALL,)),
        Message("tool", "two!", tool_call_id="1"),
        Message("assistant", "two"),
    )
    append_turn(user_id, Message("user", "3"), Message("assistant", "three"))
    found = turn_lookup.read_turn(user_id, turn, earlier=12, max_messages=50)
    assert texts(found.earlier) == ["1", "one"]
    assert texts(found.turn) == ["2", "Let me see.", "two!"]
    assert found.turn[1].tool_calls == (CALL,)
    assert found.reply.text == "two"


def test_turn_reads_no_more_messages_than_requested(user_id):
    for number in range(5):
        append_turn(
            user_id, Message("user", f"{number}?"), Message("assistant", f"{number}!")
        )
    many = [Message("user", f"part {number}") for number in range(9)]
    turn = append_turn(user_id, *many, Message("assistant", "done"))
    found = turn_lookup.read_turn(user_id, turn, earlier=3, max_messages=9)
    assert texts(found.earlier) == ["3!", "4?", "4!"]
    found = turn_lookup.read_turn(user_id, turn, earlier=3, max_messages=2)
    assert texts(found.turn) == ["part 7", "part 8"]


def test_turn_of_another_user_is_not_found(user_id):
    turn = append_turn(user_id, Message("user", "1"), Message("assistant", "one"))
    assert turn_lookup.read_turn(new_user(), turn, earlier=1, max_messages=1) is None
    assert StoredMessage.objects.find_reply(new_user(), turn) is None
    assert StoredMessage.objects.find_reply(user_id, new_turn_id()) is None
    place = StoredMessage.objects.find_reply(user_id, turn, is_locked=False)
    assert (place.position, place.agent, place.finish_reason) == (1, "a", "stop")


def test_turn_lookup_uses_an_index():
    with CaptureQueriesContext(connection) as queries:
        StoredMessage.objects.find_reply(new_user(), new_turn_id())
    with connection.cursor() as cursor:
        # PostgreSQL uses no index for so few rows unless forced.
        is_sqlite = connection.vendor == "sqlite"
        if not is_sqlite:
            cursor.execute("SET enable_seqscan = off")
        sql = queries[0]["sql"]
        cursor.execute(f"EXPLAIN {'QUERY PLAN ' * is_sqlite}{sql}")
        plan = " ".join(str(row) for row in cursor.fetchall())
        if not is_sqlite:
            cursor.execute("RESET enable_seqscan")
    assert "memory_message_reply" in plan
