"""Users switch recall and learning off, for good."""

import json

import pytest

from access.models import AuditEntry
from access.users import identity
from memory.extraction import extraction_worker, llm_call
from memory.extraction.extraction_tasks import read_result
from memory.facts import fact_store
from memory.facts.types import FactDraft
from memory.models import Fact, Owner
from tasks.models import EXTRACTION, Task
from tests.conftest import CONFIG
from tests.gateway.calls import ask, error, prompt
from tests.gateway.memory_client import MemoryClient, ok

pytestmark = pytest.mark.database

SETTINGS = "/v1/users/me/settings"
REMEMBERING = (
    CONFIG.replace(
        "  - name: assistant\n", "  - name: assistant\n    memory_tools: true\n"
    )
    + """
memory:
  user_state:
    embed_with: {provider: hash}
    learn_from: {provider: openai, model: gpt-cheap}
"""
)


@pytest.fixture
def server(running, configure) -> str:
    configure(REMEMBERING)
    return running


@pytest.fixture
def person(http, user) -> MemoryClient:
    return MemoryClient(http, user)


def switch(person: MemoryClient, **settings) -> dict:
    return ok(person.send("PATCH", SETTINGS, settings))


def remember(user: str) -> None:
    drafts = [
        FactDraft("Answer in German.", category="rule", source="user"),
        FactDraft("Is allergic to nuts", importance=10, source="user"),
        FactDraft("Likes pears", source="user"),
    ]
    user_id = identity.derive_user_id(user)
    fact_store.save_drafts(user_id, drafts, [None] * 3, by="user")


def call_tool(client, fake, user, name: str, **arguments) -> str:
    """Have an agent call a memory tool; return its result."""
    fake.call_tool(name, arguments)
    fake.reply("Done")
    ask(client, user, "Please")
    return fake.requests[-1].body["messages"][-1]["content"]


def test_settings_are_on_until_they_are_changed(person, user):
    on = {"object": "user.settings", "recall": True, "learning": True}
    assert person.get(SETTINGS) == on
    assert not Owner.objects.filter(user_id=identity.derive_user_id(user)).exists()
    assert switch(person, recall=False) == {**on, "recall": False}
    assert switch(person, learning=False) == {**on, "recall": False, "learning": False}
    assert person.get(SETTINGS) == {**on, "recall": False, "learning": False}
    assert switch(person, recall=True, learning=True) == on
    assert switch(person) == on


def test_changed_settings_are_in_the_audit(person, user):
    switch(person, learning=False)
    switch(person, learning=False)
    user_id = str(identity.derive_user_id(user))
    (entry,) = AuditEntry.objects.filter(action="user.settings", target=user_id)
    assert entry.details == {"learning": False}


@pytest.mark.parametrize(
    "body", [{"recall": "no"}, {"recall": None}, {"recal": False}, [], "x"]
)
def test_invalid_settings_are_refused(person, body):
    refused = error(person.send("PATCH", SETTINGS, body), 400)
    assert refused["type"] == "invalid_request_error"
    assert person.get(SETTINGS)["recall"] is True


def test_switched_off_recall_holds_for_every_prompt(client, fake, person, user):
    remember(user)
    ask(client, user, "I like pears", metadata={"thread_id": "other"})
    switch(person, recall=False)
    ask(client, user, "What do I like? Pears?")
    assert [role for role, _ in prompt(fake.requests[-1])] == ["system", "user"]
    switch(person, recall=True)
    ask(client, user, "What do I like? Pears?")
    assert "Answer in German." in str(prompt(fake.requests[-1]))


def test_switched_off_recall_keeps_the_conversation(client, fake, person, user):
    switch(person, recall=False)
    fake.reply("Hi!")
    ask(client, user, "Hello")
    ask(client, user, "And?")
    assert prompt(fake.requests[-1])[1:] == [
        ("user", "Hello"),
        ("assistant", "Hi!"),
        ("user", "And?"),
    ]


def test_agents_cannot_search_after_recall_is_switched_off(client, fake, person, user):
    remember(user)
    switch(person, recall=False)
    found = call_tool(client, fake, user, "search_memory", query="pears")
    assert found.startswith("Error: The user has switched recall off")
    assert person.finds("pears") == ["Likes pears"]


def test_agents_cannot_save_after_learning_is_switched_off(client, fake, person, user):
    saved = person.save("Likes pears")
    switch(person, learning=False)
    refused = call_tool(client, fake, user, "save_memory", content="Likes tea")
    assert refused.startswith("Error: The user has switched learning off")
    change = {"id": saved["id"], "content": "Likes plums"}
    refused = call_tool(client, fake, user, "update_memory", **change)
    assert refused.startswith("Error: The user has switched learning off")
    assert person.contents() == ["Likes pears"]
    # What users save themselves is not learned.
    person.save("Answer in German.", category="rule")


def test_extraction_is_skipped_after_learning_is_switched_off(
    client, fake, person, user
):
    ask(client, user, "I like tea very much")
    switch(person, learning=False)
    tasks = Task.objects.extractions().filter(user_id=identity.derive_user_id(user))
    Task.objects.extractions().exclude(pk__in=tasks).delete()
    count = len(fake.requests)
    extraction_worker.run(Task.objects.claim(EXTRACTION))
    assert read_result(tasks.get()).skipped == "the user has switched learning off"
    assert len(fake.requests) == count
    assert person.finds("tea", **{"in": "messages"}) == []


def test_learning_switched_off_during_extraction_holds(
    client, person, user, monkeypatch
):
    ask(client, user, "I like tea very much")
    user_id = identity.derive_user_id(user)
    tasks = Task.objects.extractions().filter(user_id=user_id)
    Task.objects.extractions().exclude(pk__in=tasks).delete()
    fact = {"content": "Likes tea.", "quote": "I like tea", "category": "preference"}

    def answer(*arguments, **options) -> tuple[str, bool]:
        switch(person, learning=False)
        return json.dumps({"facts": [fact]}), True

    monkeypatch.setattr(llm_call, "call_model", answer)
    extraction_worker.run(Task.objects.claim(EXTRACTION))
    assert read_result(tasks.get()).skipped == "the user has switched learning off"
    assert not Fact.objects.filter(user_id=user_id).exists()


def test_settings_are_exported_and_erased(person, user):
    switch(person, recall=False)
    exported = person.get("/v1/users/me/export")
    assert exported["settings"]["recall"] is False
    assert exported["settings"]["learning"] is True
    asked = ok(person.send("DELETE", "/v1/users/me"), 202)
    confirmation = asked["confirmation"]
    ok(person.send("DELETE", "/v1/users/me", confirmation=confirmation))
    assert person.get(SETTINGS)["recall"] is True
