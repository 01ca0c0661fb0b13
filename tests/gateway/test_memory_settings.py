"""What the YAML says of memory counts in the turns a client takes."""

import pytest

from access.users import identity
from config import live
from memory import memory_settings
from memory.models import Message
from memory.recall import query_embedding
from memory.transcript import message_cache
from tests.conftest import CONFIG
from tests.gateway.calls import ask

pytestmark = pytest.mark.database

SET = (
    CONFIG
    + """
memory:
  importance: {user: 0.7, assistant: 0.2}
  working_memory_cap: 3
  user_state: {embed_with: {provider: hash}, fusion: rrf}
"""
)


@pytest.fixture
def server(running, configure) -> str:
    configure(SET)
    return running


def test_messages_matter_by_who_said_them(client, fake, user):
    ask(client, user, "hello")
    rows = Message.objects.filter(thread__user_id=identity.derive(user))
    assert list(rows.order_by("position").values_list("role", "importance")) == [
        ("user", 0.7),
        ("assistant", 0.2),
    ]


def test_no_more_messages_are_held_ready_than_asked_for(client, fake, user):
    for text in ("one", "two", "three"):
        ask(client, user, text)
    held = message_cache.MEMORY.get((identity.derive(user), ""))
    assert held is not None
    assert [line.message.text for line in held.messages][1:2] == ["three"]
    assert (held.length, len(held.messages)) == (6, 3)


async def test_the_lists_of_a_turn_become_one_as_asked(server):
    remembering = memory_settings.of_agent(live.current(), "assistant").user_memory
    assert (await query_embedding.query(remembering, "hello")).fusion == "rrf"
