"""The YAML's memory settings apply to turns."""

import pytest

from access.users import identity
from config import live
from memory import memory_settings
from memory.models import StoredMessage
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


def test_message_importance_depends_on_role(client, fake, user):
    ask(client, user, "hello")
    rows = StoredMessage.objects.filter(thread__user_id=identity.derive_user_id(user))
    assert list(rows.order_by("position").values_list("role", "importance")) == [
        ("user", 0.7),
        ("assistant", 0.2),
    ]


def test_message_cache_keeps_configured_number(client, fake, user):
    for text in ("one", "two", "three"):
        ask(client, user, text)
    suspended = message_cache.MESSAGE_CACHE.get((identity.derive_user_id(user), ""))
    assert suspended is not None
    assert [line.message.text for line in suspended.messages][1:2] == ["three"]
    assert (suspended.length, len(suspended.messages)) == (6, 3)


async def test_query_uses_configured_fusion(server):
    remembering = memory_settings.resolve_for_agent(
        live.current(), "assistant"
    ).user_memory
    assert (await query_embedding.build_query(remembering, "hello")).fusion == "rrf"
