"""Harness for extraction tests: stored turns, their tasks, and model replies."""

import json
import uuid
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path
from typing import Any

from django.db.models import QuerySet

from config import live
from config.loading import loader
from config.sections import Config
from core.ids import TurnId, UserId
from memory.extraction import extraction_tasks, extraction_worker
from memory.extraction.extraction_tasks import ExtractionRequest, TurnRange
from memory.models import Fact, StoredMessage, Thread
from tasks.models import EXTRACTION, Task
from testing.scripted_provider import FakeProvider

NOON = datetime(2026, 3, 2, 12, 0, tzinfo=UTC)
"""A Monday."""
_clock = count()


def new_user() -> UserId:
    return UserId(uuid.uuid4())


def add_turn(
    user: UserId, *texts: str, thread: str = "", at: datetime = NOON, roles: str = "ua"
) -> Task:
    """Store a turn and its task; `roles` are initials, used in rotation."""
    row, _ = Thread.objects.get_or_create(
        user_id=user, name=thread, defaults={"created_at": at, "updated_at": at}
    )
    role_names = {"u": "user", "a": "assistant", "t": "tool", "s": "system"}
    turn_id = TurnId(uuid.uuid4())
    first = row.length
    StoredMessage.objects.bulk_create(
        StoredMessage(
            thread=row,
            position=first + number,
            turn_id=turn_id,
            role=role_names[roles[number % len(roles)]],
            text=text,
            tokens=len(text) // 4 + 4,
            created_at=at,
        )
        for number, text in enumerate(texts)
    )
    row.length = first + len(texts)
    row.save()
    return create_job(row, turn_id, first, row.length)


def create_job(thread: Thread, turn_id: TurnId, first: int, end: int) -> Task:
    turn = TurnRange(UserId(thread.user_id), thread.pk, turn_id, first, end)
    # Later tasks are newer, as in reality.
    now = NOON + timedelta(microseconds=next(_clock))
    extraction_tasks.enqueue(turn, ExtractionRequest("assistant"), now)
    return Task.objects.extractions().get(turn_id=turn_id)


CONFIG = """
providers:
  openai:
    api_key: sk-openai-q7Vd2mXw9Lr4TzK8bNf3HcYs
    base_url: {fake}/v1
    retries: 0
agents:
  - name: assistant
    provider: openai
    model: gpt-test
  - name: private
    provider: openai
    model: gpt-test
    memory: false
memory:
  user_state:
    embed_with: {embed_with}
    learn_from: {provider: openai, model: cheap-test}
"""
HASH = "{provider: hash}"


def load_config(
    fake: FakeProvider, path: Path, text: str = CONFIG, **more: str
) -> Config:
    """Activate a YAML with the fake as its provider."""
    for name, value in {"embed_with": HASH, **more, "fake": fake.root_url}.items():
        text = text.replace("{" + name + "}", value)
    path.write_text(text)
    config = loader.load_file(path)
    live.set_current(config)
    return config


def fact(content: str, quote: str, **fields: Any) -> dict[str, Any]:
    """Return a fact in the format of a model's reply."""
    return {"content": content, "quote": quote, "category": "fact", **fields}


def propose_facts(fake: FakeProvider, *facts: Any) -> None:
    """Have the model propose these facts."""
    fake.reply(json.dumps({"facts": facts}))


def run_job(job: Task) -> Task:
    """Claim and process the task; return its row."""
    taken = claim()
    assert taken is not None
    assert taken.pk == job.pk
    extraction_worker.run(taken)
    job.refresh_from_db()
    return job


def run_due_jobs() -> int:
    """Run the due tasks one after the other; return how many."""
    count = 0
    while task := claim():
        extraction_worker.run(task)
        count += 1
    return count


def claim() -> Task | None:
    """Claim the next task that is due now."""
    return Task.objects.claim(EXTRACTION)


def change_payload(job: Task, **values: Any) -> None:
    """Change values of a task's payload."""
    payload = {**job.payload, **values}
    Task.objects.filter(pk=job.pk).update(payload=payload)


def messages_of(job: Task) -> QuerySet[StoredMessage]:
    """Return the messages of the thread of a task."""
    rows = StoredMessage.objects.filter(thread=job.payload["thread"])
    return rows.order_by("position")


def list_facts(user: UserId) -> list[tuple[str, str]]:
    """Return the facts of a user with their status."""
    rows = Fact.objects.filter(user_id=user).order_by("created_at", "content")
    return list(rows.values_list("content", "status"))
