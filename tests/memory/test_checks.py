"""Warnings of the system checks."""

import uuid
from datetime import UTC, datetime

import numpy as np
import pytest

from core.ids import UserId, new_turn_id
from core.messages import Message
from memory import checks
from memory.config import MemoryConfig, UserState
from memory.extraction.extraction_tasks import ExtractionRequest
from memory.facts import fact_store
from memory.facts.types import FactDraft
from memory.memory_settings import ExtractionModel, UserMemory
from memory.recall.types import Embedded
from memory.transcript import message_store
from memory.transcript.message_rows import NewMessage
from providers.config import ProviderConfig
from providers.embeddings.base import Embedder
from tasks.models import Task

pytestmark = [pytest.mark.database, pytest.mark.usefixtures("database")]


def find_alerts(embedder: str, model: ExtractionModel | None = None) -> dict[str, str]:
    user_memory = UserMemory(
        Embedder(embedder, 3, 0.2), model, UserState(), MemoryConfig()
    )
    return dict(checks.find_alerts(user_memory))


def test_hash_embedder_raises_w401():
    assert "coulisse.W401" in find_alerts("hash:1024")
    assert "coulisse.W401" not in find_alerts("local:minilm-int8:384")


@pytest.mark.parametrize(
    ("fields", "is_one"),
    [
        ({"kind": "local"}, True),
        ({"kind": "local", "base_url": "http://127.0.0.1:9/v1"}, False),
        ({"kind": "openai", "api_key": "k"}, False),
    ],
)
def test_too_small_extraction_model_raises_w404(fields: dict[str, str], is_one: bool):
    model = ExtractionModel("p", ProviderConfig.model_validate(fields), "smollm2-135m")
    assert ("coulisse.W404" in find_alerts("x", model)) is is_one
    assert "coulisse.W404" not in find_alerts("x")


def test_vectors_of_another_embedder_raise_w402():
    user = UserId(uuid.uuid4())
    vector = Embedded("ours", np.array([1, 0, 0], dtype=np.float32))
    fact_store.save_drafts(
        user, [FactDraft("The user lives in Lisbon")], [vector], by="user"
    )
    assert (
        "vectors of an embedder other than theirs"
        in find_alerts("theirs")["coulisse.W402"]
    )


def test_turns_with_failed_extraction_raise_w403():
    entries = [NewMessage(Message("user", "hi"), 1)]
    user = UserId(uuid.uuid4())
    message_store.append_turn(
        user, "", new_turn_id(), entries, extraction=ExtractionRequest("assistant")
    )
    job = Task.objects.extractions().get(user_id=user)
    assert job.due_at <= datetime.now(UTC)
    Task.objects.extractions().filter(pk=job.pk).update(state="errored")
    assert "Fact extraction failed" in find_alerts("x")["coulisse.W403"]
    job.delete()


def test_turns_waiting_without_worker_raise_w405():
    entries = [NewMessage(Message("user", "hi"), 1)]
    user = UserId(uuid.uuid4())
    message_store.append_turn(
        user, "", new_turn_id(), entries, extraction=ExtractionRequest("assistant")
    )
    job = Task.objects.extractions().get(user_id=user)
    before = find_alerts("x").get("coulisse.W405", "")
    Task.objects.extractions().filter(pk=job.pk).update(
        due_at=datetime(2026, 1, 1, tzinfo=UTC)
    )
    assert find_alerts("x")["coulisse.W405"] != before
    job.delete()
