"""Conversations of a user: messages, calls, scores and failed turns."""

from datetime import UTC, datetime

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from access.users import identity
from core.ids import new_turn_id
from core.messages import Message, ToolCall
from judges.models import Feedback, Score
from judges.scoring.verdict_parser import JudgeResult
from memory.models import AgentState, Thread
from memory.transcript import message_store
from memory.transcript.message_rows import NewMessage
from studio.conversations import conversation
from tests.gateway.calls import error
from tests.gateway.memory_client import ok
from tests.memory.facts.saving import save
from tests.memory.user_data import sample_user
from tests.telemetry.sample_turns import nested_calls, store_turn, tool_call

pytestmark = pytest.mark.database

ADD = ToolCall("call_add", "add", '{"a": 1}')
LONG_TEXT = "A" * 2_000_000
MARKUP = "<script>alert(1)</script> & <b>bold</b>"


@pytest.fixture
def alice(server, user):
    return identity.derive_user_id(user)


def store_messages(user_id, *messages, thread="", finish_reason="stop", turn_id=None):
    """Store the messages of a turn and return its id; the last one is the reply."""
    turn_id = turn_id or new_turn_id()
    *before, reply = [NewMessage(message, 5, agent="assistant") for message in messages]
    last = NewMessage(reply.message, 7, agent="assistant", finish_reason=finish_reason)
    message_store.append_turn(user_id, thread, turn_id, [*before, last])
    return turn_id


def read(script, user_id, **query):
    return ok(script.get(f"/admin/users/{user_id}/messages", params=query))


def page(browser, user_id, query=""):
    response = browser.get(f"/admin/users/{user_id}{query}")
    assert response.status_code == 200
    return response.text


def test_transcript_is_listed_oldest_first(script, alice):
    turn_id = store_messages(
        alice, Message("user", "Hi"), Message("assistant", "Hello!")
    )
    page_data = read(script, alice)
    user, reply = page_data["data"]
    assert (user["role"], user["content"], user["tokens"]) == ("user", "Hi", 5)
    assert (reply["role"], reply["content"], reply["agent"]) == (
        "assistant",
        "Hello!",
        "assistant",
    )
    assert reply["turn_id"] == str(turn_id)
    assert (reply["turn"], reply["calls"], reply["scores"]) == (None, [], [])
    assert page_data["thread"]["thread_id"] is None
    assert not page_data["has_more"]


def test_long_conversations_are_paginated_newest_first(script, browser, alice):
    for number in range(30):
        store_messages(
            alice, Message("user", f"q{number}"), Message("assistant", f"a{number}")
        )
    newest = read(script, alice)
    assert [each["position"] for each in newest["data"]] == list(range(20, 60))
    older = read(script, alice, before=newest["first_position"])
    assert [each["position"] for each in older["data"]] == list(range(20))
    assert not older["has_more"]
    assert [e["position"] for e in read(script, alice, limit=3)["data"]] == [57, 58, 59]
    assert f"?before={newest['first_position']}" in page(browser, alice)
    assert ">q3<" in page(browser, alice, "?before=20").replace("\n", "")


@pytest.mark.parametrize("query", [{"before": "x"}, {"limit": "0"}, {"limit": "201"}])
def test_invalid_queries_are_refused(script, alice, query):
    refusal_page = error(
        script.get(f"/admin/users/{alice}/messages", params=query), 400
    )
    assert refusal_page["param"] in query


def test_threads_are_separate_and_latest_is_shown_first(script, browser, alice):
    store_messages(alice, Message("user", "In the first"), Message("assistant", "Yes"))
    name = 'a "b" & c/d?'
    store_messages(
        alice, Message("user", "In the other"), Message("assistant", "Ok"), thread=name
    )
    assert read(script, alice)["thread"]["thread_id"] == name
    assert read(script, alice, thread="")["data"][0]["content"] == "In the first"
    assert read(script, alice, thread=name)["data"][0]["content"] == "In the other"
    threads = ok(script.get(f"/admin/users/{alice}/threads"))["data"]
    assert [each["thread_id"] for each in threads] == [name, None]
    store_messages(alice, Message("user", "Back"), Message("assistant", "Yes"))
    threads = ok(script.get(f"/admin/users/{alice}/threads"))["data"]
    assert [each["thread_id"] for each in threads] == [None, name]
    store_messages(
        alice, Message("user", "And there"), Message("assistant", "Ok"), thread=name
    )
    shown = page(browser, alice)
    assert "?thread=a%20%22b%22%20%26%20c%2Fd%3F" in shown
    refusal_page = script.get(
        f"/admin/users/{alice}/messages", params={"thread": "none"}
    )
    assert error(refusal_page, 404)["code"] == "thread_not_found"


def test_reply_of_a_failed_turn_shows_its_error(browser, script, alice):
    turn_id = store_messages(alice, Message("user", "Hi"), Message("assistant", "He"))
    store_turn(turn_id=turn_id, user_id=alice, outcome="error", error="out of tokens")
    _, reply = read(script, alice)["data"]
    assert reply["turn"]["error"] == "out of tokens"
    assert "out of tokens" in page(browser, alice)


def test_texts_are_escaped(browser, alice):
    call = tool_call("look", arguments=MARKUP, result=MARKUP, error=MARKUP)
    turn_id = store_messages(
        alice, Message("user", MARKUP), Message("assistant", MARKUP)
    )
    store_turn(call, turn_id=turn_id, user_id=alice, user_message=MARKUP, error=MARKUP)
    for path in (
        f"/admin/users/{alice}",
        f"/admin/turns/{turn_id}?fragment=1",
        f"/admin/turns/{turn_id}",
        f"/admin/turns?user={alice}",
    ):
        shown = browser.get(path).text
        assert "alert(1)" in shown
        assert "<script>alert" not in shown
        assert "<b>bold" not in shown


def test_configured_secrets_are_masked(browser, script, alice):
    secret = "sk-openai-q7Vd2mXw9Lr4TzK8bNf3HcYs"
    call = ToolCall("call_1", "look", f'{{"key": "{secret}"}}')
    store_messages(
        alice,
        Message("user", f"My key is {secret}"),
        Message("assistant", None, tool_calls=(call,)),
        Message("tool", secret, tool_call_id=call.id),
        Message("assistant", secret),
    )
    fact_id = save(alice, f"Has the key {secret}").fact_id
    facts = f"/admin/users/{alice}/facts"
    for path in ("", "/facts", f"/facts/mem_{fact_id.hex}", "/facts?q=key"):
        shown = browser.get(f"/admin/users/{alice}{path}").text
        assert secret not in shown
        assert "[redacted]" in shown
    for path in (f"/admin/users/{alice}/messages", facts, f"{facts}?q=key"):
        page_data = script.get(path).text
        assert secret not in page_data
        assert "[redacted]" in page_data


def test_long_text_is_folded(browser, alice):
    store_messages(alice, Message("user", "x" * 5000), Message("assistant", "short"))
    shown = page(browser, alice)
    assert "4000 more characters" in shown
    assert shown.count("<summary>…") == 1


def test_content_parts_are_shown_by_name(script, browser, alice):
    picture = "data:image/png;base64," + "A" * 4000
    parts = [
        {"type": "text", "text": "What is this?"},
        {"type": "image_url", "image_url": {"url": picture}},
        {"type": "image_url", "image_url": {"url": "https://example.com/a.png"}},
        {"type": "file", "file": {"filename": "plan.pdf", "file_data": picture}},
        {
            "type": "input_audio",
            "input_audio": {"data": "A" * 2_000_000, "format": "wav"},
        },
    ]
    store_messages(alice, Message("user", parts[:4]), Message("assistant", "A plan."))
    store_messages(alice, Message("user", parts[4:]), Message("assistant", "A song."))
    first, _, second, _ = read(script, alice)["data"]
    assert first["content"] == "What is this?"
    assert first["parts"] == [
        "image (image/png, 4 kB)",
        "image (https://example.com/a.png)",
        "file (plan.pdf, image/png, 4 kB)",
    ]
    assert second["parts"] == ["files (2.0 MB)"]
    assert "file (plan.pdf, image/png, 4 kB)" in page(browser, alice)


def test_recorded_calls_precede_the_reply(script, browser, alice):
    turn_id = store_messages(
        alice,
        Message("user", "1 + 1?"),
        Message("assistant", None, tool_calls=(ADD,)),
        Message("tool", "2", tool_call_id=ADD.id),
        Message("assistant", "Two."),
    )
    store_turn(
        *nested_calls(),
        turn_id=turn_id,
        user_id=alice,
        experiment="sums",
        cost_micro_usd=1500,
        user_message="1 + 1?",
    )
    user, reply = read(script, alice)["data"]
    assert [(call["name"], call["kind"]) for call in reply["calls"]] == [
        ("add", "mcp"),
        ("ask_researcher", "subagent"),
        ("slow", "mcp"),
    ]
    assert reply["calls"][0] == {
        "name": "add",
        "kind": "mcp",
        "target": "calculator",
        "seconds": 0.25,
        "arguments": '{"a": 1}',
        "result": "2",
        "error": None,
    }
    turn = reply["turn"]
    assert (turn["experiment"], turn["cost_usd"]) == ("sums", 0.0015)
    assert user["turn"] is None
    shown = page(browser, alice)
    assert f'data-src="/admin/turns/{turn_id}?fragment=1"' in shown
    assert shown.index("ask_researcher") < shown.index("Two.")


def test_transcript_calls_are_shown_without_a_record(script, alice):
    store_messages(
        alice,
        Message("user", "1 + 1?"),
        Message("assistant", "Let me see.", tool_calls=(ADD,)),
        Message("tool", "2", tool_call_id=ADD.id),
        Message("assistant", None, tool_calls=(ADD,)),
        Message("assistant", "Two."),
    )
    *_, aside, reply = read(script, alice)["data"]
    assert aside["content"] == "Let me see."
    assert [call["result"] for call in reply["calls"]] == ["2", "2"]


def test_unanswered_client_call_is_shown(script, alice):
    store_messages(
        alice,
        Message("user", "1 + 1?"),
        Message("assistant", None, tool_calls=(ADD,)),
        finish_reason="tool_calls",
    )
    _, reply = read(script, alice)["data"]
    assert reply["finish_reason"] == "tool_calls"
    assert [call["result"] for call in reply["calls"]] == [None]


def test_long_results_are_truncated_except_on_the_turn_page(script, alice):
    turn_id = store_messages(alice, Message("user", "?"), Message("assistant", "!"))
    long = "y" * 10_000
    store_turn(tool_call("add", result=long), turn_id=turn_id, user_id=alice)
    (call,) = read(script, alice)["data"][-1]["calls"]
    assert call["result"] == "y" * 4000 + "…"
    assert ok(script.get(f"/admin/turns/{turn_id}"))["calls"][0]["result"] == long


def test_scores_feedback_and_extracted_facts_are_shown_with_reply(
    script, browser, alice
):
    turn_id = store_messages(
        alice, Message("user", "I like plums"), Message("assistant", "Ok")
    )
    store_turn(turn_id=turn_id, user_id=alice)
    Score.objects.store(
        {"tone": JudgeResult(8, "It is kind.")},
        turn_id=turn_id,
        user_id=alice,
        judge="quality",
        agent="assistant",
    )
    now = datetime.now(UTC)
    Feedback.objects.create(
        user_id=alice,
        turn_id=turn_id,
        thumb="down",
        comment="Too short",
        agent="assistant",
        created_at=now,
        updated_at=now,
    )
    # From the first of their messages.
    fact = sample_user.store_fact(alice, "Likes plums")
    user, reply = read(script, alice)["data"]
    (extracted,) = user["extracted_facts"]
    assert (extracted["id"], extracted["content"]) == (
        f"mem_{fact.id.hex}",
        "Likes plums",
    )
    (score,) = reply["scores"]
    assert (score["value"], score["reasoning"]) == (8, "It is kind.")
    assert (reply["feedback"]["thumb"], reply["feedback"]["comment"]) == (
        "down",
        "Too short",
    )
    shown = page(browser, alice)
    for text in ("It is kind.", "Too short", "Likes plums", "quality · tone"):
        assert text in shown


def test_failed_turns_are_shown_in_order(script, browser, alice):
    store_messages(alice, Message("user", "First"), Message("assistant", "One"))
    store_turn(
        user_id=alice,
        outcome="error",
        error="provider 'openai' failed (HTTP 529)",
        user_message="Second",
        started_at=datetime.now(UTC),
    )
    store_turn(
        user_id=alice, outcome="error", thread="other", started_at=datetime.now(UTC)
    )
    store_messages(alice, Message("user", "Third"), Message("assistant", "Three"))
    page_data = read(script, alice)["data"]
    texts = [each.get("content", each.get("user_message")) for each in page_data]
    assert texts == ["First", "One", "Second", "Third", "Three"]
    assert "HTTP 529" in page(browser, alice)


def test_failures_are_shown_for_a_user_without_replies(script, browser, alice):
    store_turn(user_id=alice, outcome="error", error="no luck", user_message="Hello?")
    page_data = read(script, alice)
    assert page_data["thread"] is None
    assert [each["error"] for each in page_data["data"]] == ["no luck"]
    assert "no luck" in page(browser, alice)


def test_earlier_pages_show_only_their_own_failures(script, alice):
    for number in range(3):
        store_messages(
            alice, Message("user", f"q{number}"), Message("assistant", f"a{number}")
        )
        moment = datetime.now(UTC)
        store_turn(
            user_id=alice, outcome="error", error=f"e{number}", started_at=moment
        )
    newest = read(script, alice, limit=2)
    assert [each.get("error") for each in newest["data"]] == [None, None, "e2"]
    older = read(script, alice, limit=2, before=newest["first_position"])
    assert "e2" not in [each.get("error") for each in older["data"]]


def test_query_count_is_independent_of_length(alice):
    counts = []
    for number in (1, 12):
        for _ in range(number):
            turn_id = store_messages(
                alice, Message("user", "Hi"), Message("assistant", "Hello!")
            )
            store_turn(*nested_calls(), turn_id=turn_id, user_id=alice)
            sample_user.store_scores(alice, turn_id, "plums")
        thread = Thread.objects.get(user_id=alice, name="")
        with CaptureQueriesContext(connection) as queries:
            page_data = conversation.load_messages(alice, thread)
        assert len(page_data.data) == 2 * sum(range(number + 1)) or number == 12
        counts.append(len(queries))
    assert counts == [8, 8]


def test_state_of_agents_is_shown(script, browser, alice):
    store_messages(alice, Message("user", "Hi"), Message("assistant", "Hello!"))
    thread = Thread.objects.get(user_id=alice)
    values = {"concerns": [MARKUP], "progress": {"week": 3}}
    now = datetime.now(UTC)
    AgentState.objects.change(thread.pk, "coach", lambda _: values, now)

    (state,) = read(script, alice)["states"]
    text = page(browser, alice)

    assert state["agent"] == "coach"
    assert state["state"] == values
    assert "State of coach" in text
    assert "<dt>progress</dt>" in text
    assert "{&quot;week&quot;:3}" in text
    assert MARKUP not in text
