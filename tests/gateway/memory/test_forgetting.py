"""What models and users receive after a fact was forgotten, over HTTP."""

import json
from typing import Any

import pytest
from django.utils import timezone

from access.users import identity
from core.ids import new_turn_id
from core.messages import Message
from memory.facts import fact_selection, forgetting
from memory.models import Fact, FactMessage, PendingForgetting, StoredMessage
from memory.transcript import message_store
from memory.transcript.message_rows import NewMessage
from memory.transcript.withholding import TouchedFacts
from tasks.models import Task
from telemetry.models import ToolCall
from tests.conftest import CONFIG
from tests.gateway.calls import ask, body, post, prompt, user_message
from tests.gateway.memory_client import MemoryClient, address, ok
from tests.memory.extraction_harness import fact, propose_facts, run_due_jobs

pytestmark = pytest.mark.database

REMEMBERING = (
    CONFIG.replace("    preamble", "    memory_tools: true\n    preamble", 1)
    + """
memory:
  user_state:
    embed_with: {provider: hash}
    learn_from: {provider: openai, model: gpt-cheap}
"""
)
HOME = "I live at 5 Rua Augusta."
ECHO = "Noted: Rua Augusta."


@pytest.fixture
def server(running, configure) -> str:
    Task.objects.extractions().delete()
    configure(REMEMBERING)
    return running


@pytest.fixture
def person(http, user) -> MemoryClient:
    return MemoryClient(http, user)


@pytest.fixture
def home(client, fake, user) -> Fact:
    """A fact that the user told in the thread "a"."""
    say(client, fake, user, HOME, ECHO)
    propose_facts(fake, fact("Lives at 5 Rua Augusta", "I live at 5 Rua Augusta"))
    run_due_jobs()
    return Fact.objects.get(user_id=identity.derive_user_id(user))


def say(client, fake, user, text: str, answer: str, thread: str = "a", **more) -> Any:
    """Send a message; return the body that the provider received."""
    fake.reply(answer)
    metadata = {"thread_id": thread, **more}
    ask(client, user, text, metadata=metadata)
    return fake.requests[-1]


def conversation(request: Any) -> list[tuple[str, str]]:
    return [pair for pair in prompt(request) if pair[0] != "system"]


@pytest.mark.parametrize("history", ["auto", "server"])
def test_no_thread_tells_a_forgotten_fact(client, fake, user, home, person, history):
    more = {"history": history}
    before = say(client, fake, user, "Where is Augusta?", "There.", "b", **more)
    assert str(before.body).count("Augusta") > 2
    person.forget({"id": home.public_id})
    asked = say(client, fake, user, "Where do I live?", "Unknown.", **more)
    assert conversation(asked) == [("user", "Where do I live?")]
    for thread in ("b", "c"):
        asked = say(client, fake, user, "Where do I live?", "Unknown.", thread, **more)
        assert "Augusta" not in str(asked.body).replace("Where is Augusta?", "")


def test_search_does_not_tell_a_forgotten_fact(client, fake, user, home, person):
    assert person.finds("Augusta", **{"in": "all"}) != []
    person.forget({"id": home.public_id})
    assert person.finds("Augusta", **{"in": "all"}) == []
    fake.call_tool("search_memory", {"query": "Rua Augusta"})
    say(client, fake, user, "Search it.", "Nothing.", "d")
    results = [m for m in fake.bodies[-1]["messages"] if m["role"] == "tool"]
    assert [json.loads(each["content"]) for each in results] == [
        {"facts": [], "messages": []}
    ]


QUESTION = "Shall I forget Rua Augusta?"
NOT_ASKED = "the user was not asked about this"


def ask_to_forget(client, fake, user, text="Forget where I live!", **arguments) -> Any:
    """Let the agent ask; return what its tool answered."""
    fake.call_tool("forget_memory", arguments)
    say(client, fake, user, text, QUESTION)
    return tool_results(fake)[-1]


def confirm(client, fake, user, text="Yes.", thread="a", **wanted) -> Any:
    """Let the agent repeat the call; return what its tool answered."""
    fake.call_tool("forget_memory", {"confirmed": True, **wanted})
    say(client, fake, user, text, "Gone.", thread)
    return tool_results(fake)[-1]


def tool_results(fake) -> list[Any]:
    messages = fake.bodies[-1]["messages"]
    contents = [each["content"] for each in messages if each["role"] == "tool"]
    return [json.loads(each) if each.startswith("{") else each for each in contents]


@pytest.mark.parametrize(
    "wanted", [{"query": "rua AUGUSTA"}, {"all": True}], ids=["query", "all"]
)
def test_user_has_it_forgotten_by_the_agent(client, fake, user, home, wanted):
    """Both turns name it, too."""
    told = ask_to_forget(client, fake, user, **wanted)
    assert told["would_forget"] == [{"id": home.public_id, "content": home.content}]
    home.refresh_from_db()
    assert home.status == "active"
    done = confirm(client, fake, user, "Yes, Rua Augusta.", **wanted)
    assert done == {"forgotten": [home.public_id]}
    home.refresh_from_db()
    assert home.status == "deleted"
    calls = len(fake.requests)
    run_due_jobs()  # Of the turn that asked.
    assert len(fake.requests) == calls
    assert "Augusta" not in str(say(client, fake, user, "Thanks.", "Sure.").body)
    rows = StoredMessage.objects.filter(thread__user_id=home.user_id, is_withheld=True)
    asked, answered = ("Forget where I live!", QUESTION), ("Yes, Rua Augusta.", "Gone.")
    assert {row.text for row in rows} == {HOME, ECHO, *asked, *answered}
    assert confirm(client, fake, user, **wanted)["would_forget"] == []


def test_short_answer_withholds_no_other_conversation(client, fake, user, home, person):
    say(client, fake, user, "Yes.", "Then I book the violin lesson.", "b")
    ask_to_forget(client, fake, user, id=home.public_id)
    confirm(client, fake, user, id=home.public_id)
    person.send("DELETE", address({"id": home.public_id}), purge="true")
    asked = say(client, fake, user, "When?", "Soon.", "b")
    assert ("assistant", "Then I book the violin lesson.") in conversation(asked)


def test_agent_cannot_confirm_in_the_turn_in_which_it_asks(client, fake, user, home):
    fake.call_tool("forget_memory", {"id": home.public_id})
    fake.call_tool("forget_memory", {"id": home.public_id, "confirmed": True})
    say(client, fake, user, "Hello", "Hi.")
    assert NOT_ASKED in tool_results(fake)[-1]
    home.refresh_from_db()
    assert home.status == "active"


def test_answer_counts_in_its_thread_and_for_its_time(client, fake, user, home):
    wanted = {"id": home.public_id}
    ask_to_forget(client, fake, user, **wanted)
    assert NOT_ASKED in confirm(client, fake, user, thread="b", **wanted)
    pending = PendingForgetting.objects.filter(user_id=home.user_id)
    assert not PendingForgetting.objects.expired(timezone.now()) & pending
    pending.update(expires_at=timezone.now())
    assert NOT_ASKED in confirm(client, fake, user, **wanted)
    assert PendingForgetting.objects.expired(timezone.now()) & pending
    home.refresh_from_db()
    assert home.status == "active"


def test_answer_counts_for_what_was_asked(client, fake, user, home, person):
    other = person.save("Plays the cello")
    ask_to_forget(client, fake, user, id=home.public_id)
    assert NOT_ASKED in confirm(client, fake, user, id=other["id"])
    assert NOT_ASKED in confirm(client, fake, user, all=True)
    ask_to_forget(client, fake, user, id=other["id"])
    assert NOT_ASKED in confirm(client, fake, user, id=home.public_id)
    assert confirm(client, fake, user, id=other["id"]) == {"forgotten": [other["id"]]}
    home.refresh_from_db()
    assert home.status == "active"


def test_facts_may_be_asked_about_one_by_one(client, fake, user, home, person):
    other = person.save("Plays the cello")
    for fact_id in (home.public_id, other["id"]):
        fake.call_tool("forget_memory", {"id": fact_id})
    say(client, fake, user, "Forget both!", "Both?")
    for fact_id in (home.public_id, other["id"]):
        fake.call_tool("forget_memory", {"id": fact_id, "confirmed": True})
    say(client, fake, user, "Yes.", "Gone.")
    assert person.contents() == []
    assert not PendingForgetting.objects.filter(user_id=home.user_id).exists()


def test_result_of_a_client_tool_is_no_answer(client, fake, user, home):
    function = {"name": "look", "parameters": {"type": "object"}}
    tools = [{"type": "function", "function": function}]
    fake.call_tool("forget_memory", {"id": home.public_id})
    fake.call_tool("look", {})
    metadata = {"thread_id": "a"}
    reply = ask(client, user, "Hello", tools=tools, metadata=metadata)
    (call,) = reply.choices[0].message.tool_calls
    fake.call_tool("forget_memory", {"id": home.public_id, "confirmed": True})
    fake.reply("Gone.")
    result = {"role": "tool", "tool_call_id": call.id, "content": "seen"}
    ask(client, user, messages=[result], tools=tools, metadata=metadata)
    assert "only a message of the user" in tool_results(fake)[-1]
    home.refresh_from_db()
    assert home.status == "active"


@pytest.mark.parametrize(
    "arguments", [{}, {"id": "x", "all": True}, {"confirmed": True}]
)
def test_one_thing_is_forgotten_at_a_time(client, fake, user, home, arguments):
    answer = ask_to_forget(client, fake, user, **arguments)
    assert "give one of id, query and all" in answer


def test_forgotten_facts_are_not_offered_again(client, fake, user, home, person):
    person.forget({"id": home.public_id})
    assert "no such fact" in ask_to_forget(client, fake, user, id=home.public_id)
    for wanted in ({"query": "Augusta"}, {"all": True}):
        told = ask_to_forget(client, fake, user, **wanted)
        assert told["would_forget"] == []


def test_query_finds_superseded_facts(client, fake, user, home, person):
    Fact.objects.filter(pk=home.pk).update(status="superseded")
    told = ask_to_forget(client, fake, user, query="Augusta")
    assert [each["id"] for each in told["would_forget"]] == [home.public_id]


def test_too_many_facts_are_refused(client, fake, user, home, monkeypatch):
    monkeypatch.setattr(fact_selection, "MAX_FACTS", 0)
    answer = ask_to_forget(client, fake, user, all=True)
    assert "more than 0 facts: give a query" in answer


def test_subagent_may_forget_it(client, fake, user, home, configure):
    boss = (
        "agents:\n  - name: boss\n    provider: openai\n    model: gpt-test\n"
        "    subagents: [assistant]\n"
    )
    configure(REMEMBERING.replace("agents:\n", boss))
    for more in ({}, {"confirmed": True}):
        fake.call_tool("assistant", {"message": "Forget the address."})
        fake.call_tool("forget_memory", {"id": home.public_id, **more})
        fake.reply("Is that right?")
        fake.reply("Rua Augusta?")
        ask(client, user, "Augusta!", agent="boss", metadata={"thread_id": "a"})
    assert "Augusta" not in str(say(client, fake, user, "Thanks.", "Sure.").body)


def test_fact_that_the_agent_saved_leaves_its_thread(client, fake, user, person):
    fake.call_tool("save_memory", {"content": "Street: Rua Augusta"})
    say(client, fake, user, "It is where the arch stands. Note it.", "I did.")
    (saved,) = person.get()["data"]
    assert FactMessage.objects.get(fact_id=saved["id"][4:]).message.role == "user"
    person.forget(saved)
    asked = say(client, fake, user, "And now?", "Now what?")
    assert conversation(asked) == [("user", "And now?")]


def test_client_may_send_it_again(server, fake, user, home, person):
    """These are the client's words; nothing is stored or extracted again."""
    person.forget({"id": home.public_id})
    messages = [
        user_message(HOME),
        {"role": "assistant", "content": ECHO},
        user_message("Which floor?"),
    ]
    request = body(user, messages=messages, metadata={"thread_id": "a"})
    assert post(server, request).status_code == 200
    assert [text for _, text in conversation(fake.requests[-1])] == [
        HOME,
        ECHO,
        "Which floor?",
    ]
    propose_facts(fake)
    assert run_due_jobs() == 1
    assert "Augusta" not in str(fake.bodies[-1])
    rows = StoredMessage.objects.filter(thread__user_id=home.user_id)
    assert rows.filter(text=HOME).count() == 1


def test_response_continues_without_it(client, fake, user, home, person):
    first = StoredMessage.objects.filter(thread__user_id=home.user_id)[0]
    person.forget({"id": home.public_id})
    fake.reply("Unknown.")
    client.responses.create(
        model="assistant",
        input="Where do I live?",
        previous_response_id=f"resp_{first.turn_id.hex}",
        safety_identifier=user,
    )
    assert conversation(fake.requests[-1]) == [("user", "Where do I live?")]


# The user's own view.


def exported(person) -> Any:
    return ok(person.send("GET", "/v1/users/me/export"))


def test_export_shows_withheld_messages(home, person):
    person.forget({"id": home.public_id})
    data = exported(person)
    (thread,) = data["threads"]
    shown = [(m["content"], m["is_withheld"]) for m in thread["messages"]]
    assert shown == [(HOME, True), (ECHO, True)]
    assert [each["status"] for each in data["memories"]] == ["deleted"]


def test_purged_fact_is_gone(client, fake, user, home, person):
    fake.call_tool("search_memory", {"query": "Rua Augusta"})
    say(client, fake, user, "What street?", "You know it.", "d")
    memory = {"id": home.public_id}
    gone = ok(person.send("DELETE", address(memory), purge=True))
    assert gone["deleted"] is True
    person.refused("GET", address(memory), 404)
    data = exported(person)
    assert len(data["turns"]) == 2
    assert "Augusta" not in json.dumps(data)
    calls = ToolCall.objects.filter(turn__user_id=home.user_id)
    assert [(call.arguments, call.result) for call in calls] == [("", "")]
    asked = say(client, fake, user, "Where do I live?", "Unknown.")
    assert conversation(asked) == [("user", "Where do I live?")]


def test_purged_message_is_recognised_when_sent_again(server, fake, user, home, person):
    ok(person.send("DELETE", address({"id": home.public_id}), purge=True))
    messages = [
        user_message(HOME),
        {"role": "assistant", "content": ECHO},
        user_message("Which floor?"),
    ]
    request = body(user, messages=messages, metadata={"thread_id": "a"})
    assert post(server, request).status_code == 200
    rows = StoredMessage.objects.filter(thread__user_id=home.user_id)
    assert not rows.filter(text__contains="Augusta").exists()


def test_invalid_purge_is_refused(home, person):
    refused = person.refused("DELETE", address({"id": home.public_id}), purge="maybe")
    assert refused["param"] == "purge"
    home.refresh_from_db()
    assert home.status == "active"


def test_short_source_withholds_no_other_conversation(client, fake, user, person):
    say(client, fake, user, "Yes.", "Then I book the violin lesson.", "b")
    fake.call_tool("save_memory", {"content": "Likes tea"})
    say(client, fake, user, "Yes.", "Saved.")
    (saved,) = person.get()["data"]
    person.forget(saved)
    asked = say(client, fake, user, "When?", "Soon.", "b")
    assert ("assistant", "Then I book the violin lesson.") in conversation(asked)


def test_turn_with_a_fact_that_was_forgotten_meanwhile_is_withheld(home, person):
    person.forget({"id": home.public_id})
    entries = [NewMessage(Message("user", "I told you."))]
    facts = TouchedFacts(saved=[home.pk])
    turn_id = new_turn_id()
    message_store.append_turn(home.user_id, "a", turn_id, entries, facts=facts)
    assert StoredMessage.objects.get(turn_id=turn_id).is_withheld


def test_texts_that_mention_a_forgotten_fact_are_found(home, person):
    text = "The user lives at 5 Rua Augusta, and plays the cello."
    assert not forgetting.mentions_forgotten_fact(home.user_id, text)
    person.forget({"id": home.public_id})
    assert forgetting.mentions_forgotten_fact(home.user_id, text)
    assert not forgetting.mentions_forgotten_fact(home.user_id, "Plays the cello.")
