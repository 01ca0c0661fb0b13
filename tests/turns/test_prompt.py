"""Composition of the prompt: valid for every provider, without duplicates."""

import pytest

from core.messages import Message, Reasoning, ToolCall
from turns.errors import MessagesInvalid
from turns.preparation import prompt

CALL = ToolCall("call_1", "look", "{}")
OTHER = ToolCall("call_2", "look", "{}")


def user(text: str) -> Message:
    return Message("user", text)


def assistant(text: str | None = None, *calls: ToolCall) -> Message:
    return Message("assistant", text, tool_calls=calls)


def result(id: str) -> Message:
    return Message("tool", "found", tool_call_id=id)


def test_messages_after_the_last_reply_are_new():
    sent = [user("a"), assistant("b"), user("c"), user("d")]
    assert prompt.new_messages(sent) == [user("c"), user("d")]


def test_system_messages_are_excluded_from_the_conversation():
    sent = [Message("system", "be kind"), user("a"), Message("system", "and brief")]
    assert prompt.new_messages(sent) == [user("a")]
    assert prompt.conversation(sent) == [user("a")]


def test_reply_at_the_end_does_not_continue_a_stored_conversation():
    with pytest.raises(MessagesInvalid, match="must end with a user message"):
        prompt.check_new([], [user("a"), assistant("b")])
    prompt.check_new([], [Message("system", "x")])


def test_agents_system_message_comes_first_and_once():
    client = Message("system", "from the client")
    messages = prompt.system_messages("preamble\n", ["in French", ""], [client])
    assert messages == [Message("system", "preamble\n\nin French"), client]


def test_agent_without_preamble_has_no_system_message():
    assert prompt.system_messages("", [""], [user("a")]) == []


def test_answered_calls_are_kept():
    conversation = [user("a"), assistant(None, CALL, OTHER)]
    answers = [result("call_2"), result("call_1")]
    assert prompt.join(conversation, answers) == [
        user("a"),
        assistant(None, CALL, OTHER),
        result("call_1"),
        result("call_2"),
    ]


def test_unanswered_call_is_dropped():
    conversation = [user("a"), assistant("looking", CALL), user("never mind")]
    assert prompt.drop_malformed(conversation) == [
        user("a"),
        assistant("looking"),
        user("never mind"),
    ]


def test_unanswered_call_without_text_drops_its_message():
    conversation = [user("a"), assistant(None, CALL), user("b")]
    assert prompt.drop_malformed(conversation) == [user("a"), user("b")]


def test_reasoning_is_dropped_with_its_call():
    message = Message(
        "assistant", "hm", tool_calls=(CALL,), reasoning=(Reasoning("x", "sig"),)
    )
    assert prompt.drop_malformed([user("a"), message])[-1].reasoning == ()


def test_only_the_answered_of_two_calls_is_kept():
    conversation = [
        user("a"),
        assistant(None, CALL, OTHER),
        result("call_1"),
        user("b"),
    ]
    assert prompt.drop_malformed(conversation)[1].tool_calls == (CALL,)


def test_result_without_its_call_is_dropped_from_history():
    assert prompt.drop_malformed([user("a"), result("gone"), user("b")]) == [
        user("a"),
        user("b"),
    ]


def test_new_result_without_its_call_is_refused():
    with pytest.raises(MessagesInvalid, match="call_9"):
        prompt.join([user("a")], [result("call_9")])


CALLED = assistant(None, CALL, OTHER)


@pytest.mark.parametrize(
    ("since", "new", "joined"),
    [
        # First results of these calls.
        ([], [result("call_1")], [assistant(None, CALL), result("call_1")]),
        # Resent results.
        (
            [result("call_1"), assistant("b")],
            [result("call_1")],
            [assistant(None, CALL), result("call_1")],
        ),
        # One by one.
        (
            [result("call_1"), assistant("b")],
            [result("call_2")],
            [CALLED, result("call_1"), result("call_2")],
        ),
        # After another question.
        (
            [user("c"), assistant("d")],
            [result("call_2"), user("e")],
            [
                user("c"),
                assistant("d"),
                assistant(None, OTHER),
                result("call_2"),
                user("e"),
            ],
        ),
    ],
)
def test_new_results_follow_their_calls(since, new, joined):
    assert prompt.join([user("a"), CALLED, *since], new) == [user("a"), *joined]


def test_last_of_calls_with_one_id_is_answered():
    call = assistant(None, CALL)
    history = [user("a"), call, result("call_1"), call]
    assert prompt.join(history, [result("call_1")]) == [*history, result("call_1")]


def test_repeated_question_is_joined_once():
    assert prompt.join([user("a")], [user("a")]) == [user("a")]


def test_same_question_after_a_reply_is_kept():
    conversation = [user("a"), assistant("b"), user("a")]
    assert prompt.drop_malformed(conversation) == conversation
