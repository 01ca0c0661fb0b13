"""What models and users receive after a fact was forgotten, over HTTP."""

import json
from typing import Any

import pytest
from django.utils import timezone

from access.users import identity
from memory.facts import fact_selection
from memory.models import Fact, FactMessage, PendingForgetting, StoredMessage
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


def ask_to_forget(client, fake, user, **arguments) -> Any:
    """Let the agent ask; return what its tool answered."""
    fake.call_tool("forget_memory", arguments)
    say(client, fake, user, "Forget where I live!", QUESTION)
    return tool_results(fake)[-1]


def confirm(client, fake, user, text="Yes.", thread="a", **more) -> Any:
    """Let the agent confirm; return what its tool answered."""
    fake.call_tool("forget_memory", {"confirmed": True, **more})
    say(client, fake, user, text, "Gone.", thread)
    return tool_results(fake)[-1]


def tool_results(fake) -> list[Any]:
    contents = [
        m["content"] for m in fake.bodies[-1]["messages"] if m["role"] == "tool"
    ]
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
    done = confirm(client, fake, user, "Yes, Rua Augusta.")
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
    assert "has not answered" in confirm(client, fake, user)


def test_agent_cannot_confirm_in_the_turn_in_which_it_asks(client, fake, user, home):
    fake.call_tool("forget_memory", {"id": home.public_id})
    fake.call_tool("forget_memory", {"confirmed": True})
    say(client, fake, user, "Hello", "Hi.")
    assert "has not answered" in tool_results(fake)[-1]
    home.refresh_from_db()
    assert home.status == "active"


def test_answer_counts_in_its_thread_and_for_its_time(client, fake, user, home):
    ask_to_forget(client, fake, user, id=home.public_id)
    assert "has not answered" in confirm(client, fake, user, thread="b")
    pending = PendingForgetting.objects.filter(user_id=home.user_id)
    assert not PendingForgetting.objects.expired(timezone.now()) & pending
    pending.update(expires_at=timezone.now())
    assert "has not answered" in confirm(client, fake, user)
    assert PendingForgetting.objects.expired(timezone.now()) & pending
    home.refresh_from_db()
    assert home.status == "active"


def test_last_question_counts(client, fake, user, home, person):
    other = person.save("Plays the cello")
    ask_to_forget(client, fake, user, id=home.public_id)
    ask_to_forget(client, fake, user, id=other["id"])
    assert confirm(client, fake, user) == {"forgotten": [other["id"]]}
    home.refresh_from_db()
    assert home.status == "active"


@pytest.mark.parametrize(
    "arguments", [{}, {"id": "x", "all": True}, {"query": "x", "confirmed": True}]
)
def test_one_thing_is_forgotten_at_a_time(client, fake, user, home, arguments):
    answer = ask_to_forget(client, fake, user, **arguments)
    assert "give one of id, query, all and confirmed" in answer


def test_question_about_nothing_is_none(client, fake, user, home):
    told = ask_to_forget(client, fake, user, query="violin")
    assert told["would_forget"] == []
    assert "has not answered" in confirm(client, fake, user)


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
    for arguments in ({"id": home.public_id}, {"confirmed": True}):
        fake.call_tool("assistant", {"message": "Forget the address."})
        fake.call_tool("forget_memory", arguments)
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
