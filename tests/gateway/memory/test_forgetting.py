"""What models and users receive after a fact was forgotten, over HTTP."""

import json
from typing import Any

import pytest

from access.users import identity
from memory.models import Fact, FactMessage, StoredMessage
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


def test_user_has_it_forgotten_by_the_agent(client, fake, user, home):
    """The turn in which it is forgotten names it, too."""
    fake.call_tool("search_memory", {"query": "Rua Augusta"})
    fake.call_tool("forget_memory", {"id": home.public_id})
    done = "Rua Augusta is forgotten."
    say(client, fake, user, "Forget Rua Augusta!", done)
    home.refresh_from_db()
    assert home.status == "deleted"
    assert run_due_jobs() == 0
    assert "Augusta" not in str(say(client, fake, user, "Thanks.", "Sure.").body)
    rows = StoredMessage.objects.filter(thread__user_id=home.user_id, is_withheld=True)
    assert {row.text for row in rows} == {HOME, ECHO, "Forget Rua Augusta!", done}


def test_earlier_messages_of_the_client_are_not_withheld(server, fake, user, home):
    fake.call_tool("forget_memory", {"id": home.public_id})
    fake.reply("Done.")
    messages = [
        user_message("Is it raining?"),
        {"role": "assistant", "content": "No."},
        user_message("Forget the street."),
    ]
    request = body(user, messages=messages, metadata={"thread_id": "b"})
    assert post(server, request).status_code == 200
    rows = StoredMessage.objects.filter(thread__name="b", thread__user_id=home.user_id)
    shown = [row.text for row in rows.order_by("position") if not row.is_withheld]
    assert shown == ["Is it raining?", "No."]


def test_subagent_may_forget_it(client, fake, user, home, configure):
    boss = (
        "agents:\n  - name: boss\n    provider: openai\n    model: gpt-test\n"
        "    subagents: [assistant]\n"
    )
    configure(REMEMBERING.replace("agents:\n", boss))
    fake.call_tool("assistant", {"message": "Forget the address."})
    fake.call_tool("forget_memory", {"id": home.public_id})
    fake.reply("Gone.")
    fake.reply("I forgot Rua Augusta.")
    ask(client, user, "Forget Augusta.", agent="boss", metadata={"thread_id": "a"})
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
