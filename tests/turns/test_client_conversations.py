"""Clients that send their whole conversation: the model receives exactly that.

What is stored is one line per conversation, with its branches, and nothing twice.
"""

import httpx2
import pytest

from access.users import identity
from memory.models import StoredMessage
from telemetry.models import Turn
from tests.gateway.calls import ask, body, post, prompt, refused, threads, user_message
from tests.gateway.openai.client_tools.exchange import LISBON, TOOLS, result, sent_back

pytestmark = pytest.mark.database

BOTH = pytest.mark.parametrize("agent", ["assistant", "claude"])
EITHER = pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])


def replied(text):
    return {"role": "assistant", "content": text}


def merged(messages, agent):
    """Return role and text of messages; Anthropic receives those in a row as one."""
    found = []
    for each in messages:
        if agent == "claude" and found and found[-1][0] == each["role"]:
            found[-1] = (each["role"], found[-1][1] + each["content"])
        else:
            found.append((each["role"], each["content"]))
    return found


class Chat:
    """A client that keeps its conversation, and checks what the model receives."""

    def __init__(self, server, fake, user, **more):
        self.server, self.fake, self.user, self.more = server, fake, user, more
        self.messages = []

    def say(self, text, answer, **more):
        """Send the conversation with one more message; keep the reply."""
        self.messages.append(user_message(text))
        self.send(answer, **more)

    def send(self, answer, **more):
        self.fake.reply(answer)
        options = {**self.more, **more}
        request = body(self.user, messages=self.messages, **options)
        response = post(self.server, request)
        assert response.status_code == 200, response.text
        received = [
            each for each in prompt(self.fake.requests[-1]) if each[0] != "system"
        ]
        assert received == merged(self.messages, self.more["agent"])
        self.messages.append(replied(answer))
        return response

    def truncate(self, count):
        """Forget the messages after the first ones, as before an edit."""
        del self.messages[count:]


@pytest.fixture(params=["assistant", "claude"])
def chat(request, server, fake, user):
    return lambda **more: Chat(server, fake, user, **{"agent": request.param, **more})


@pytest.fixture(params=[True, False], ids=["streamed", "whole"])
def stream(request):
    return request.param


def lines(user, thread=""):
    """Return a thread's texts: of its current branch, and of the others."""
    rows = StoredMessage.objects.filter(
        thread__user_id=identity.derive_user_id(user), thread__name=thread
    ).order_by("position")
    found = rows.values_list("text", "is_active")
    return [t for t, active in found if active], [
        t for t, active in found if not active
    ]


def conversation(chat, count):
    for number in range(1, count + 1):
        chat.say(f"q{number}", f"a{number}")


def texts(first, last):
    return [f"{kind}{n}" for n in range(first, last + 1) for kind in "qa"]


def test_conversation_sent_each_time_is_stored_once(chat, user, stream):
    mine = chat(stream=stream)
    conversation(mine, 5)
    assert lines(user) == (texts(1, 5), [])
    assert threads(user) == [""]


def test_edit_of_a_question_begins_a_branch(chat, user, stream):
    mine = chat(stream=stream)
    conversation(mine, 5)
    mine.truncate(4)
    mine.say("q3 edited", "b3")
    mine.say("q4 again", "b4")
    kept = [*texts(1, 2), "q3 edited", "b3", "q4 again", "b4"]
    assert lines(user) == (kept, texts(3, 5))


def test_another_reply_begins_a_branch(chat, user, stream):
    mine = chat(stream=stream)
    conversation(mine, 3)
    mine.truncate(5)
    mine.send("another a3")
    mine.say("q4", "a4")
    assert lines(user) == ([*texts(1, 2), "q3", "another a3", "q4", "a4"], ["a3"])


def test_edit_of_the_last_reply_begins_a_branch(chat, user, stream):
    mine = chat(stream=stream)
    conversation(mine, 2)
    mine.messages[-1] = replied("a2 edited")
    mine.say("q3", "a3")
    assert lines(user) == ([*texts(1, 1), "q2", "a2 edited", "q3", "a3"], ["a2"])


def test_edit_of_the_only_reply_begins_a_branch(chat, user):
    mine = chat()
    conversation(mine, 1)
    mine.messages[-1] = replied("a1 edited")
    mine.say("q2", "a2")
    assert lines(user) == (["q1", "a1 edited", "q2", "a2"], ["a1"])


def test_client_returns_to_an_earlier_branch(chat, user):
    mine = chat()
    conversation(mine, 3)
    old = list(mine.messages)
    mine.truncate(2)
    mine.say("q2 edited", "b2")
    mine.messages = old
    mine.say("q4", "a4")
    assert lines(user) == (texts(1, 4), ["q2 edited", "b2"])


def test_branches_among_single_messages_of_the_user(chat, user, client, fake):
    mine = chat()
    single = 0
    for number in range(1, 6):
        mine.say(f"q{number}", f"a{number}")
        if number in (2, 4, 5):
            single += 1
            ask(client, user, f"single {single}")
    old = list(mine.messages)
    mine.truncate(2)
    mine.say("q2 edited", "b2")
    current, others = lines(user)
    assert [text for text in current if text[0] in "qab"] == [
        *texts(1, 1),
        "q2 edited",
        "b2",
    ]
    assert others == texts(2, 5)
    mine.messages = old
    mine.say("q6", "a6")
    current, others = lines(user)
    assert [text for text in current if text[0] in "qab"] == texts(1, 6)
    assert [text for text in current if text.startswith("single")] == [
        f"single {number}" for number in (1, 2, 3)
    ]
    assert others == ["q2 edited", "b2"]


def test_parallel_conversations_stay_apart(chat, user, fake, stream):
    one, two = chat(stream=stream), chat(stream=stream)
    one.say("q1", "a1")
    # The first message of a conversation alone continues the user's thread.
    two.messages = [user_message("p1")]
    fake.reply("b1")
    post(two.server, body(user, messages=two.messages, **two.more))
    two.messages.append(replied("b1"))
    for number in (2, 3):
        one.say(f"q{number}", f"a{number}")
        two.say(f"p{number}", f"b{number}")
    default, own = threads(user)
    assert lines(user, default) == (texts(1, 3), [])
    assert lines(user, own) == (["p1", "b1", "p2", "b2", "p3", "b3"], [])
    recorded = Turn.objects.filter(user_id=identity.derive_user_id(user))
    for thread, letter in ((default, "q"), (own, "p")):
        found = recorded.filter(thread=thread).order_by("started_at")
        texts_of = [turn.user_message for turn in found]
        assert texts_of == [f"{letter}{number}" for number in (1, 2, 3)]


def test_new_chat_of_a_client_reads_nothing_of_the_old(chat, user, stream):
    old, new = (chat(stream=stream, metadata={"history": "client"}) for _ in "12")
    conversation(old, 2)
    conversation(new, 2)
    default, own = threads(user)
    assert [lines(user, each) for each in (default, own)] == [(texts(1, 2), [])] * 2


def test_title_call_leaves_no_trace(chat, user, stream):
    mine, title = chat(stream=stream), chat(stream=stream, metadata={"history": "none"})
    conversation(mine, 2)
    title.messages = [user_message("Write a title for: q1 a1")]
    title.send("A title")
    mine.say("q3", "a3")
    assert lines(user) == (texts(1, 3), [])
    assert threads(user) == [""]


def test_examples_in_the_first_request_reach_the_model(chat, user, stream):
    mine = chat(stream=stream)
    mine.messages = [user_message("2+2"), replied("4")]
    mine.say("3+3", "6")
    mine.say("4+4", "8")
    assert lines(user) == (["2+2", "4", "3+3", "6", "4+4", "8"], [])


def test_sliding_window_continues_the_conversation(chat, user, stream):
    mine = chat(stream=stream)
    conversation(mine, 4)
    for number in (5, 6):
        del mine.messages[:4]
        mine.say(f"q{number}", f"a{number}")
    assert lines(user) == (texts(1, 6), [])


def test_compacted_history_continues_the_conversation(chat, user, stream):
    mine = chat(stream=stream)
    conversation(mine, 4)
    mine.messages[:6] = [user_message("So far: three questions."), replied("Noted.")]
    mine.say("q5", "a5")
    mine.say("q6", "a6")
    assert lines(user) == (texts(1, 6), [])


def test_same_words_again_are_sent_again(chat, user, stream):
    mine = chat(stream=stream)
    for _ in range(3):
        mine.say("again", "same")
    assert lines(user) == (["again", "same"] * 3, [])


def test_two_user_messages_in_a_row_are_both_sent(chat, user, stream):
    mine = chat(stream=stream)
    conversation(mine, 1)
    mine.messages += [user_message("wait"), user_message("wait")]
    mine.say("go", "gone")
    assert lines(user) == ([*texts(1, 1), "wait", "wait", "go", "gone"], [])


def test_stateless_call_after_parallel_ones_reads_nothing(chat, user, stream):
    for number in range(3):
        mine = chat(stream=stream, metadata={"history": "client"})
        mine.say(f"chat {number}", "ok")
    alone = chat(stream=stream, metadata={"history": "none"})
    alone.say("stateless", "indeed")
    assert len(threads(user)) == 3


def test_named_thread_has_branches_of_one_conversation(chat, user):
    mine = chat(metadata={"thread_id": "mine"})
    conversation(mine, 2)
    mine.messages = [user_message("started over"), replied("ok")]
    mine.say("q", "a")
    assert threads(user) == ["mine"]
    assert lines(user, "mine") == (["started over", "ok", "q", "a"], texts(1, 2))


def test_other_users_conversation_is_not_recognised(chat, user, server, fake):
    mine = chat()
    conversation(mine, 2)
    other = Chat(server, fake, f"{user}-other", agent="assistant")
    other.messages = list(mine.messages)
    other.say("q3", "a3")
    assert lines(user) == (texts(1, 2), [])
    assert lines(other.user) == (texts(1, 3), [])


def test_export_has_the_branches(chat, user, server):
    mine = chat()
    conversation(mine, 2)
    mine.truncate(2)
    mine.say("q2 edited", "b2")
    response = httpx2.get(
        f"{server}/v1/users/me/export", headers={"X-Coulisse-User": user}
    )
    (thread,) = response.json()["threads"]
    found = [
        (each["content"], each["is_active"], each["parent_position"])
        for each in thread["messages"]
    ]
    assert found == [
        ("q1", True, None),
        ("a1", True, None),
        ("q2", False, None),
        ("a2", False, None),
        ("q2 edited", True, 1),
        ("b2", True, None),
    ]


def test_retried_request_is_stored_once(chat, user):
    mine = chat()
    conversation(mine, 2)
    mine.messages.pop()
    mine.send("a2 at last")
    assert lines(user) == (["q1", "a1", "q2", "a2 at last"], ["a2"])


def test_new_messages_alone_continue_the_current_branch(chat, user, client, fake):
    mine = chat()
    conversation(mine, 3)
    mine.truncate(2)
    mine.say("edited", "b2")
    ask(client, user, "and now?")
    received = [text for role, text in prompt(fake.requests[-1]) if role != "system"]
    assert received == ["q1", "a1", "edited", "b2", "and now?"]


@EITHER
def test_tool_exchange_of_a_client_is_sent_as_it_is(client, fake, user, stream, server):
    fake.call_tool(*LISBON)
    fake.reply("Rain.")
    fake.reply("Sure.")
    history = [user_message("How is it?")]
    request = body(user, messages=history, tools=TOOLS)
    message = client.chat.completions.create(**request).choices[0].message
    history += [sent_back(message), result(message.tool_calls[0])]
    for text in ("Rain.", "Sure."):
        request = body(user, messages=history, tools=TOOLS, stream=stream)
        assert post(server, request).status_code == 200
        received = [role for role, _ in prompt(fake.requests[-1]) if role != "system"]
        assert received == [each["role"] for each in history]
        history += [replied(text), user_message("Sure?")]
    assert lines(user)[0] == ["How is it?", "", "rain", "Rain.", "Sure?", "Sure."]


def test_server_history_ignores_the_conversation_that_is_sent(client, fake, user):
    ask(client, user, "stored")
    sent = [user_message("x"), replied("y"), user_message("z")]
    ask(client, user, messages=sent, metadata={"history": "server"})
    received = [text for role, text in prompt(fake.requests[-1]) if role != "system"]
    assert received == ["stored", "Hello from the fake.", "z"]


def test_system_message_stays_where_the_client_put_it(client, fake, user):
    sent = [
        {"role": "system", "content": "first"},
        user_message("x"),
        replied("y"),
        {"role": "system", "content": "now in French"},
        user_message("z"),
    ]
    ask(client, user, messages=sent)
    received = [text for _, text in prompt(fake.requests[-1])][1:]
    assert received == ["first", "x", "y", "now in French", "z"]


def test_prefilled_reply_is_sent(client, fake, user):
    ask(client, user, messages=[user_message("x"), replied("The answer is")])
    assert [text for _, text in prompt(fake.requests[-1])][1:] == [
        "x",
        "The answer is",
    ]


def test_instructions_alone_are_a_request(client, fake, user):
    ask(client, user, messages=[{"role": "system", "content": "Greet the user."}])
    assert [text for _, text in prompt(fake.requests[-1])][1:] == ["Greet the user."]


def test_unknown_history_is_refused(server, user):
    error = refused(server, body(user, metadata={"history": "all"}))
    assert error["param"] == "metadata.history"
