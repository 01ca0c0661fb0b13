"""Rules in prompts: instructions below the agent's own."""

import pytest

from access.users import identity
from memory.facts import fact_store, public_ids
from memory.facts.types import FactDraft
from memory.models import StoredMessage
from telemetry.models import Turn
from tests.conftest import CONFIG
from tests.gateway.calls import ask, prompt
from tests.gateway.memory_client import MemoryClient, ok

pytestmark = pytest.mark.database

HEADING = "How the user wants to be answered (the instructions above come first):"
REMEMBERING = (
    CONFIG
    + """
  - name: amnesiac
    provider: openai
    model: gpt-test
    memory: false
  - name: stateless
    provider: openai
    model: gpt-test
    history: client
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


def add_rule(user: str, content: str, **fields) -> str:
    """Save a rule; return its public id."""
    draft = FactDraft(content, category="rule", source="user", **fields)
    user_id = identity.derive_user_id(user)
    (saved,) = fact_store.save_drafts(user_id, [draft], [None], by="user")
    return public_ids.format_fact_id(saved.fact_id)


def test_rules_follow_the_instructions_and_precede_memories(client, fake, user):
    rule = add_rule(user, "Answer in German.", key="language")
    add_rule(user, "Be brief.")
    user_id = identity.derive_user_id(user)
    draft = FactDraft("The user is allergic to nuts", importance=10, source="user")
    fact_store.save_drafts(user_id, [draft], [None], by="user")
    ask(client, user, "Hello")
    roles = prompt(fake.requests[-1])
    assert roles[0] == ("system", "You are a test assistant.")
    assert roles[1] == ("system", f"{HEADING}\n- Answer in German.\n- Be brief.")
    assert roles[2][1].startswith("Known about the user:\n- [general] is allergic")
    assert "German" not in roles[2][1]
    assert roles[3] == ("user", "Hello")
    assert rule in Turn.objects.get(user_id=user_id).recalled


def test_rules_are_in_prompts_of_clients_with_their_own_history(client, fake, user):
    add_rule(user, "Answer in German.")
    ask(client, user, "Hello", agent="stateless")
    assert (
        f"{HEADING}\n- Answer in German." in dict(prompt(fake.requests[-1]))["system"]
    )


@pytest.mark.parametrize(
    ("agent", "metadata"),
    [
        ("assistant", {"memory": "off"}),
        ("assistant", {"memory": "incognito"}),
        ("amnesiac", {}),
    ],
)
def test_rules_are_not_in_prompts_without_memory(client, fake, user, agent, metadata):
    add_rule(user, "Answer in German.")
    ask(client, user, "Hello", agent=agent, metadata=metadata)
    assert "German" not in str(prompt(fake.requests[-1]))


def test_rules_of_other_users_are_not_in_prompts(client, fake, user):
    add_rule(f"not-{user}", "Answer in German.")
    ask(client, user, "Hello")
    assert "German" not in str(prompt(fake.requests[-1]))


def test_forgotten_rule_leaves_replies_that_followed_it(client, fake, http, user):
    rule = add_rule(user, "Answer in simple German.")
    fake.reply("Das ist simple: German.")
    ask(client, user, "Hello")
    ok(MemoryClient(http, user).send("DELETE", f"/v1/memories/{rule}"))
    rows = StoredMessage.objects.filter(thread__user_id=identity.derive_user_id(user))
    assert [row.is_withheld for row in rows] == [False, False]
    ask(client, user, "And now?")
    assert HEADING not in str(prompt(fake.requests[-1]))
