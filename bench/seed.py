"""Fills a new database: `python -m bench.seed` reads the users as JSON from stdin."""

import json
import os
import sys

import django

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "coulisse_site.settings")
django.setup()

from django.core.management import call_command  # noqa: E402  apps must be ready first

from access.users import identity  # noqa: E402
from bench.provider import TOKEN, TOKENS  # noqa: E402
from config import live  # noqa: E402
from core.ids import new_turn_id  # noqa: E402
from core.messages import Message  # noqa: E402
from core.token_estimates import estimate_message  # noqa: E402
from memory import memory_settings  # noqa: E402
from memory.facts import fact_store  # noqa: E402
from memory.facts.types import FactDraft  # noqa: E402
from memory.models import Passage  # noqa: E402
from memory.models import StoredMessage as MessageRow  # noqa: E402
from memory.recall.types import Embedded  # noqa: E402
from memory.transcript import message_store  # noqa: E402
from memory.transcript.message_rows import NewMessage  # noqa: E402
from providers import sync_bridge  # noqa: E402
from providers.embeddings import embedders  # noqa: E402

PLACES = ("Lisbon", "Oslo", "Lima", "Cairo", "Hanoi", "Quito")
RELATIONS = ("has been to", "has a friend in", "would like to see", "was ill in")
FACTS = [f"The user {relation} {place}" for relation in RELATIONS for place in PLACES]
BATCH_SIZE = 1000
"""Messages per statement, because SQLite limits its values."""


def pair(question: str) -> list[NewMessage]:
    user_message = Message("user", question)
    reply = Message("assistant", TOKEN * TOKENS)
    # The same size as the provider reports for the reply.
    size = estimate_message(user_message)
    return [
        NewMessage(user_message, size),
        NewMessage(reply, size, "assistant", "stop"),
    ]


def main() -> None:
    question, users, known = json.loads(sys.stdin.read())
    call_command("migrate", verbosity=0)
    entries = pair(question)
    for user, count in users:
        user_id = identity.derive_user_id(user)
        for start in range(0, count, BATCH_SIZE):
            pairs = min(BATCH_SIZE, count - start) // 2
            message_store.append_turn(user_id, "", new_turn_id(), entries * pairs)
    if known:
        store_facts(known)


def store_facts(users: list[str]) -> None:
    """Store the same facts for each user, and index their messages."""
    user_memory = memory_settings.resolve(live.current()).user_memory
    if user_memory is None:
        raise RuntimeError("the configuration of the bench has no user memory")
    embedder = user_memory.embedder
    rows = sync_bridge.run_sync(
        embedders.embed_texts(embedder, [*FACTS, "word by the sea"]), timeout_seconds=60
    )
    embedded = [Embedded(embedder.id, vector) for vector in rows]
    drafts = [FactDraft(fact, source="user") for fact in FACTS]
    for user in users:
        user_id = identity.derive_user_id(user)
        # No pair reaches this threshold, because these facts are similar.
        fact_store.save_drafts(user_id, drafts, embedded[:-1], by="user", threshold=1.0)
        stored = MessageRow.objects.filter(thread__user_id=user_id)
        messages = [
            (*row, embedded[-1], "")
            for row in stored.values_list("id", "position", "text")
        ]
        Passage.objects.index_messages(user_id, stored[0].thread_id, messages)
    sync_bridge.close()


if __name__ == "__main__":
    main()
