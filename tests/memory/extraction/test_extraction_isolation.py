"""Extraction during an erasure, and of several users at once."""

import json
import threading

import pytest
from django.db import connection

from memory.extraction import (
    extraction_worker,
    llm_call,
)
from memory.models import Passage, StoredMessage
from memory.recall import embedding
from memory.user_data import erasure
from tasks.models import Task
from testing.wires import ScriptedAnswer
from tests.memory.extraction_harness import (
    NOON,
    add_turn,
    claim,
    fact,
    list_facts,
    new_user,
    propose_facts,
    run_due_jobs,
    run_job,
)

pytestmark = [pytest.mark.database, pytest.mark.usefixtures("alone")]


def prompt(fake, number: int = -1) -> tuple[str, str]:
    messages = fake.requests[number].body["messages"]
    return messages[0]["content"], messages[1]["content"]


# Erasure and concurrent jobs of a user.


@pytest.mark.parametrize("moment", ["asking", "embedding"])
def test_erasure_during_extraction_leaves_no_rows(
    config, fake, owner, monkeypatch, moment
):
    module, name = {
        "asking": (llm_call, "call_model"),
        "embedding": (embedding, "embed_texts"),
    }[moment]
    original = getattr(module, name)

    def erased(*args, **kwargs):
        erasure.erase_user(owner)
        return original(*args, **kwargs)

    monkeypatch.setattr(module, name, erased)
    propose_facts(fake, fact("The user has a cat.", "I have a cat"))
    add_turn(owner, "I have a cat", "ok")
    taken = claim()
    extraction_worker.run(taken)
    assert not any(erasure.count_rows(owner).values())


def test_worker_without_lease_writes_nothing(config, fake, owner, monkeypatch):
    add_turn(owner, "I have a cat", "ok")
    lost = claim()
    Task.objects.filter(pk=lost.pk).update(due_at=NOON)
    assert claim().attempts == 2
    propose_facts(fake, fact("The user has a cat.", "I have a cat"))
    extraction_worker.run(lost)
    assert list_facts(owner) == []
    assert Task.objects.extractions().get().state == "running"


def test_prompt_and_facts_are_separate_per_user(config, fake, owner):
    other = new_user()
    add_turn(owner, "I have a cat", "ok")
    add_turn(other, "I have a dog", "ok")
    propose_facts(fake, fact("The user has a cat.", "I have a cat"))
    propose_facts(fake, fact("The user has a dog.", "I have a dog"))
    assert run_due_jobs() == 2
    assert list_facts(owner) == [("The user has a cat.", "active")]
    assert list_facts(other) == [("The user has a dog.", "active")]
    assert "a dog" not in prompt(fake, 0)[1]
    assert "a cat" not in prompt(fake, 1)[1]


def test_job_with_foreign_thread_reads_nothing(config, fake, owner):
    job = add_turn(new_user(), "my secret is 42", "ok")
    Task.objects.extractions().filter(pk=job.pk).update(user_id=owner)
    assert run_job(job).state == "done"
    assert fake.requests == []
    assert not Passage.objects.filter(user_id=owner).exists()


def test_nothing_is_extracted_from_another_branch(config, fake, owner):
    job = add_turn(owner, "I live in Rome", "ok")
    StoredMessage.objects.filter(turn_id=job.turn_id).update(is_active=False)
    assert run_job(job).state == "done"
    assert fake.requests == []
    assert not Passage.objects.filter(user_id=owner).exists()
    propose_facts(fake)
    assert run_job(add_turn(owner, "I live in Oslo", "ok")).state == "done"
    assert "Rome" not in prompt(fake)[1]


def test_parallel_contradictions_leave_one_active_fact(config, fake, owner):
    def answer(request):
        text = request.body["messages"][1]["content"]
        city = "Lisbon" if "in Lisbon" in text.rpartition("The turn:")[2] else "Berlin"
        reply = fact(f"The user lives in {city}.", f"I live in {city}")
        return ScriptedAnswer((json.dumps({"facts": [reply]}),))

    fake.default = answer
    add_turn(owner, "I live in Lisbon", "ok", thread="a")
    add_turn(owner, "I live in Berlin", "ok", thread="b")
    workers = [threading.Thread(target=drain_and_leave) for _ in range(2)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    run_due_jobs()
    assert set(Task.objects.extractions().values_list("state")) == {("done",)}
    statuses = sorted(status for _, status in list_facts(owner))
    assert statuses == ["active", "superseded"]


def drain_and_leave() -> None:
    try:
        run_due_jobs()
    finally:
        connection.close()
