"""The background tasks and their commands."""

import time
from datetime import UTC, datetime, timedelta
from io import StringIO
from types import SimpleNamespace

import pytest
from django.core.management import CommandError, call_command
from django.db import OperationalError

from config import live
from database import retention
from memory import tasks
from memory.extraction import extraction_tasks
from memory.facts import fact_store
from memory.facts.types import FactDraft
from memory.models import (
    ConsolidationRun,
    Fact,
    Passage,
    PendingErasure,
    Thread,
)
from memory.models.fact_queryset import FactQuerySet
from memory.recall import failed_embeddings, search
from memory.recall.index import hnsw_index
from memory.recall.types import Query
from memory.transcript.summaries import consolidation
from tasks.models import Task
from testing.scripted_embeddings import ScriptedEmbedding
from testing.wires import ScriptedAnswer
from tests.memory.extraction_harness import (
    CONFIG,
    NOON,
    add_turn,
    load_config,
    new_user,
    propose_facts,
    run_due_jobs,
)

pytestmark = [pytest.mark.database, pytest.mark.usefixtures("alone")]

NOW = datetime.now(UTC)
REMOTE = "{provider: openai, model: text-embedding-3-small, base_url: BASE, api_key: k}"


@pytest.fixture
def alone(database, monkeypatch):
    """Remove the work of other tests."""
    empty()
    monkeypatch.setattr(
        failed_embeddings, "_backoff", failed_embeddings.EmbedderBackoff()
    )
    before = live._current
    yield
    live.set_current(before)
    empty()


def empty() -> None:
    for model in (Task, Thread, ConsolidationRun, PendingErasure):
        model.objects.all().delete()
    # Without their messages, the sweep would accept and embed them.
    Fact.objects.filter(status="pending_review").delete()


@pytest.fixture
def owner():
    return new_user()


@pytest.fixture
def config(fake, tmp_path):
    def use_config(text: str = CONFIG, **more: str):
        return load_config(fake, tmp_path / "coulisse.yaml", text, **more)

    use_config()
    return use_config


@pytest.fixture
def remote(config, fake):
    # Texts of other tests that also wait for an embedder.
    Passage.objects.filter(embedder="").exclude(embedding_error="").delete()
    config(embed_with=REMOTE.replace("BASE", f"{fake.root_url}/v1"))


def test_consolidate_task_stores_a_receipt(config, fake, owner):
    add_turn(owner, *["words"] * 40)
    fake.reply("They talked.")
    tasks.consolidate()
    tasks.consolidate()
    assert ConsolidationRun.objects.get().summaries == 1


def test_sweep_expires_due_facts(config, owner):
    in_an_hour = datetime.now(UTC) + timedelta(hours=1)
    draft = FactDraft("The user has a fair.", expires_at=in_an_hour, source="user")
    fact_store.save_drafts(owner, [draft], [None], by="user")
    tasks.run_sweep(datetime.now(UTC))
    assert Fact.objects.get(user_id=owner).status == "active"
    assert tasks.run_sweep(in_an_hour)["facts expired"] >= 1
    assert Fact.objects.get(user_id=owner).status == "expired"


def test_retention_deletes_unconfirmed_erasure_requests(config, owner):
    for minutes in (-1, 1):
        PendingErasure.objects.create(
            user_id=new_user(),
            confirmation_digest="x",
            expires_at=NOW + timedelta(minutes=minutes),
        )
    assert retention.delete_expired(PendingErasure, NOW) == 1
    assert PendingErasure.objects.get().expires_at > NOW


def test_failing_sweep_step_does_not_stop_the_others(
    config, owner, monkeypatch, caplog
):
    def broken(*args):
        raise RuntimeError("odd")

    monkeypatch.setattr(FactQuerySet, "expire_due", broken)
    monkeypatch.setattr(tasks, "_build_hnsw_index", lambda: 7)
    assert tasks.run_sweep(NOW)["indexes built"] == 7
    (record,) = caplog.records
    assert "facts expired" in record.getMessage()


# Texts whose embedding failed.


def index_without_vectors(fake, owner, *texts: str) -> None:
    fake.default_embedding = ScriptedEmbedding(status=503)
    propose_facts(fake)
    add_turn(owner, *texts)
    run_due_jobs()
    fake.default_embedding = ScriptedEmbedding()


def count_requests(fake, text: str = "I love the tango") -> int:
    """Return how often a text was sent: other texts may wait for an embedder, too."""
    return sum(text in request.body["input"] for request in fake.embeddings)


def vectors(owner) -> list[tuple[str, bool]]:
    rows = Passage.objects.filter(user_id=owner).order_by("position")
    return [(row.embedding_error, row.vector is not None) for row in rows]


def test_sweep_embeds_texts_that_failed_earlier(remote, fake, owner):
    index_without_vectors(fake, owner, "I love the tango", "Me too")
    assert all(error and not has for error, has in vectors(owner))
    assert tasks.run_sweep(NOW)["texts embedded"] >= 2
    assert vectors(owner) == [("", True), ("", True)]
    asked = count_requests(fake)
    tasks.run_sweep(NOW)
    assert count_requests(fake) == asked


def test_sweep_embeds_facts_that_failed_earlier(remote, fake, owner):
    draft = FactDraft("The user loves the tango.", source="user")
    fact_store.save_drafts(owner, [draft], [None], by="user", errors=["down"])
    tasks.run_sweep(NOW)
    assert count_requests(fake, "loves the tango.") == 1
    (hit,) = search.search_facts(owner, Query("tango"), limit=1)
    assert hit.fact.content == "The user loves the tango."


def test_unavailable_embedder_is_paused(remote, fake, owner, monkeypatch):
    index_without_vectors(fake, owner, "I love the tango", "Me too")
    fake.default_embedding = ScriptedEmbedding(status=503)
    asked = count_requests(fake)
    for _ in range(3):
        tasks.run_sweep(NOW)
    assert count_requests(fake) == asked + 1
    assert all(error and not has for error, has in vectors(owner))
    fake.default_embedding = ScriptedEmbedding()
    # Only its own clock; other tests depend on theirs.
    later = SimpleNamespace(monotonic=lambda: time.monotonic() + 61)
    monkeypatch.setattr(failed_embeddings, "time", later)
    tasks.run_sweep(NOW)
    assert vectors(owner) == [("", True), ("", True)]


def test_embedder_backoff_grows_to_ten_minutes_and_resets(monkeypatch):
    monkeypatch.setattr(
        failed_embeddings, "time", SimpleNamespace(monotonic=lambda: 0.0)
    )
    backoff, pauses = failed_embeddings.EmbedderBackoff(), []
    for _ in range(6):
        backoff.record(failed=True)
        pauses.append(backoff._until)
    assert pauses == [60, 120, 240, 480, 600, 600]
    assert not backoff.has_elapsed
    backoff.record(failed=False)
    assert backoff.has_elapsed


def test_refused_text_is_not_retried_forever(remote, fake, owner):
    index_without_vectors(fake, owner, "I love the tango", "Me too")
    refusal = ScriptedEmbedding(status=400)
    # Both together, then each alone.
    fake._embedding_script.extend([refusal, refusal, ScriptedEmbedding()])
    tasks.run_sweep(NOW)
    (first, _), (second, has_vector) = vectors(owner)
    assert first.startswith("refused: ")
    assert (second, has_vector) == ("", True)
    asked = count_requests(fake)
    tasks.run_sweep(NOW)
    assert count_requests(fake) == asked


def test_sweep_embeds_nothing_when_memory_is_off(remote, config, fake, owner):
    index_without_vectors(fake, owner, "I love the tango", "Me too")
    config(CONFIG.partition("memory:\n  user_state")[0])
    asked = count_requests(fake)
    tasks.run_sweep(NOW)
    assert count_requests(fake) == asked
    assert all(error and not has for error, has in vectors(owner))


# The commands.


def printed(*args: str) -> str:
    output = StringIO()
    call_command("extraction", *args, stdout=output)
    return output.getvalue()


@pytest.fixture
def failed(config, fake, owner) -> Task:
    fake.default = ScriptedAnswer(("no JSON",))
    job = add_turn(owner, "hello", "hi")
    run_due_jobs()
    return job


def test_extraction_command_lists_failures(failed, fake, owner):
    fake.default = ScriptedAnswer(("[]",))
    add_turn(new_user(), "hello", "hi")
    run_due_jobs()
    text = printed()
    assert "1 done" in text
    assert "1 failed" in text
    assert "reply: no JSON" in text
    assert len(printed("--failed").splitlines()) == 4
    assert str(owner) in printed("--user", str(owner))
    assert "0 done" in printed("--user", str(owner))
    assert printed("--user", "somebody").startswith("extraction jobs: 0 due")
    assert str(owner) not in printed("--user", "somebody")


def test_extraction_command_reports_unusable_database(failed, monkeypatch):
    def gone(*args, **options):
        raise OperationalError("no such table")

    monkeypatch.setattr(extraction_tasks, "count_by_state", gone)
    with pytest.raises(CommandError, match="cannot use the database: no such table"):
        printed()


@pytest.mark.parametrize("which", ["all", "one"])
def test_extraction_command_retries_failed_job(failed, which):
    ident = "all" if which == "all" else str(failed.pk)
    assert printed("--retry", ident).startswith("1 requeued")
    assert Task.objects.extractions().get().state == "queued"
    assert printed("--retry", "all").startswith("0 requeued")


def test_extraction_command_refuses_to_retry_unfailed_job(failed):
    printed("--retry", str(failed.pk))
    with pytest.raises(CommandError, match=f"no failed extraction {failed.pk}"):
        printed("--retry", str(failed.pk))


def test_extraction_command_retries_only_the_named_users_jobs(failed, owner):
    assert printed("--retry", "all", "--user", "somebody").startswith("0 requeued")
    assert printed("--retry", "all", "--user", str(owner)).startswith("1 requeued")


def test_extraction_command_refuses_invalid_job_id(config):
    with pytest.raises(CommandError, match="an id or"):
        printed("--retry", "x")


def test_consolidate_returns_the_stored_receipt(config, fake, owner):
    add_turn(owner, *["words"] * 40, at=NOON)
    fake.reply("They talked.")
    receipt = consolidation.consolidate(NOW)
    assert receipt == ConsolidationRun.objects.get()


def test_sweep_builds_the_index_of_a_new_embedder(config, alone, monkeypatch):
    built = []
    monkeypatch.setattr(
        hnsw_index, "ensure_index", lambda *asked: built.append(asked) or 1
    )
    assert tasks.run_sweep(NOW)["indexes built"] == 1
    ((embedder, dimensions),) = built
    assert embedder.endswith(str(dimensions))
