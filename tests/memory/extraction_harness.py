"""Harness for extraction tests: stored turns, their jobs, and model replies."""

import json
import uuid
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from config import live
from config.loading import loader
from config.sections import Config
from core.ids import TurnId, UserId
from memory.extraction import extraction_worker, job_queue
from memory.models import ExtractionJob, Fact, StoredMessage, Thread
from testing.scripted_provider import FakeProvider

NOON = datetime(2026, 3, 2, 12, 0, tzinfo=UTC)
"""A Monday."""


def new_user() -> UserId:
    return UserId(uuid.uuid4())


def add_turn(
    user: UserId, *texts: str, thread: str = "", at: datetime = NOON, roles: str = "ua"
) -> ExtractionJob:
    """Store a turn and its job; `roles` are initials, used in rotation."""
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


def create_job(thread: Thread, turn_id: TurnId, first: int, end: int) -> ExtractionJob:
    return ExtractionJob.objects.create(
        user_id=thread.user_id,
        thread=thread,
        turn_id=turn_id,
        first_position=first,
        end_position=end,
        agent="assistant",
        due_at=NOON,
        created_at=NOON,
    )


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


def run_job(job: ExtractionJob) -> ExtractionJob:
    """Claim and process the job; return its row."""
    (taken,) = job_queue.claim(1, 300, now=datetime.now(UTC))
    assert taken.pk == job.pk
    extraction_worker.run_job(taken)
    job.refresh_from_db()
    return job


def list_facts(user: UserId) -> list[tuple[str, str]]:
    """Return the facts of a user with their status."""
    rows = Fact.objects.filter(user_id=user).order_by("created_at", "content")
    return list(rows.values_list("content", "status"))
