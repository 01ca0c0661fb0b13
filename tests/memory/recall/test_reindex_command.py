"""`coulisse reindex`: embeds texts with the current embedder, in batches."""

import uuid
from io import StringIO
from pathlib import Path

import numpy as np
import pytest
from django.core.management import CommandError, call_command
from django.db import connection

from core.ids import UserId
from memory.models import Passage
from memory.recall import embedding, search
from memory.recall.index import hnsw_index, postgres_index
from memory.recall.types import Embedded, Query
from providers.embeddings.base import Embedder
from tests.memory.recall.index_harness import index_fact, index_messages, vector

pytestmark = [pytest.mark.database, pytest.mark.usefixtures("database")]

YAML = """
providers:
  openai: {api_key: sk-unused}
memory:
  user_state:
    embed_with: {provider: hash, dims: 32}
agents:
  - {name: assistant, provider: openai, model: gpt-test}
"""
NEW = "hash:32"
postgres = pytest.mark.skipif(
    connection.vendor != "postgresql", reason="SQLite has no graph"
)


@pytest.fixture
def owner() -> UserId:
    """A user with the only passages in the database."""
    Passage.objects.all().delete()
    return UserId(uuid.uuid4())


@pytest.fixture
def yaml(tmp_path: Path) -> Path:
    path = tmp_path / "coulisse.yaml"
    path.write_text(YAML)
    return path


class Terminal(StringIO):
    def isatty(self) -> bool:
        return True


def run(yaml: Path, *arguments: str, stderr: StringIO | None = None) -> str:
    output = StringIO()
    call_command(
        "reindex",
        "-c",
        str(yaml),
        *arguments,
        stdout=output,
        stderr=stderr or StringIO(),
    )
    return output.getvalue()


def embedders(user: UserId) -> list[str]:
    rows = Passage.objects.filter(user_id=user).order_by("fact__created_at", "position")
    return [row.embedder for row in rows]


def test_reindex_gives_every_passage_a_current_vector(owner, yaml):
    index_fact(owner, "The user likes tea", vector(1, embedder="old"))
    index_fact(owner, "The user likes milk")
    index_messages(owner, "hello world", "hello you")
    assert run(yaml) == f"4 texts to embed with {NEW}\n4 embedded\n"
    assert embedders(owner) == [NEW] * 4
    assert run(yaml) == f"0 texts to embed with {NEW}\n0 embedded\n"


def test_reindexed_vectors_reach_other_processes(owner, yaml):
    index_fact(owner, "The user likes tea", vector(1, embedder="old"))
    vectors, _ = embedding.embed_texts(_embedder(), ["likes tea"])
    assert search.nearest_facts(owner, vectors[0], limit=1) == []
    run(yaml)
    ((_, similarity),) = search.nearest_facts(owner, vectors[0], limit=1)
    assert similarity == pytest.approx(1, abs=1e-3)


def _embedder() -> Embedder:
    return Embedder(NEW, 32, 0.05)


def test_dry_run_changes_nothing(owner, yaml):
    index_fact(owner, "The user likes tea")
    assert run(yaml, "--dry-run") == f"1 texts to embed with {NEW}\n"
    assert embedders(owner) == [""]


def test_text_without_words_is_embedded_once(owner, yaml):
    index_fact(owner, "...")
    run(yaml)
    assert run(yaml) == f"0 texts to embed with {NEW}\n0 embedded\n"
    found = search.search_facts(owner, Query("x", Embedded(NEW, np.ones(32))), limit=1)
    assert found == []


def test_failed_batch_is_reported_and_others_are_kept(owner, yaml, monkeypatch):
    for number in range(6):
        index_fact(owner, f"tea {number}", vector(1, embedder="old"))
    works = embedding.embed_texts

    def sometimes(embedder, texts):
        if "tea 2" in texts:
            return [None] * len(texts), ["the service is down"] * len(texts)
        return works(embedder, texts)

    monkeypatch.setattr(embedding, "embed_texts", sometimes)
    stderr = StringIO()
    with pytest.raises(CommandError, match="2 texts remain: run it again to continue"):
        run(yaml, "--batch", "2", stderr=stderr)
    assert "the service is down" in stderr.getvalue()
    assert embedders(owner) == [NEW, NEW, "old", "old", NEW, NEW]
    monkeypatch.undo()
    assert run(yaml) == f"2 texts to embed with {NEW}\n2 embedded\n"


def test_unavailable_service_ends_the_command(owner, yaml, monkeypatch):
    asked = []

    def down(embedder, texts):
        asked.append(texts)
        return [None], ["down"]

    for number in range(9):
        index_fact(owner, f"tea {number}")
    monkeypatch.setattr(embedding, "embed_texts", down)
    with pytest.raises(CommandError, match="9 texts remain"):
        run(yaml, "--batch", "1")
    assert len(asked) == 3


def test_interrupted_reindex_can_be_resumed(owner, yaml, monkeypatch):
    def broken(embedder, texts):
        if texts == ["tea 1"]:
            raise KeyboardInterrupt
        return works(embedder, texts)

    works = embedding.embed_texts
    for number in range(3):
        index_fact(owner, f"tea {number}")
    monkeypatch.setattr(embedding, "embed_texts", broken)
    with pytest.raises(CommandError, match="interrupted") as caught:
        run(yaml, "--batch", "1")
    assert caught.value.returncode == 130
    assert embedders(owner) == [NEW, "", ""]


def test_terminal_gets_a_progress_bar_and_file_gets_lines(owner, yaml):
    index_fact(owner, "tea")
    terminal, file = Terminal(), StringIO()
    run(yaml, stderr=terminal)
    assert f"\r[{'#' * 30}] 1 of 1 (100%)" in terminal.getvalue()
    index_fact(owner, "milk")
    run(yaml, stderr=file)
    assert file.getvalue().startswith("1 of 1 (100%)")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (YAML.replace("hash", "voyager"), "voyager"),
        (
            YAML[: YAML.index("memory:")] + YAML[YAML.index("agents:") :],
            "memory is off",
        ),
    ],
)
def test_missing_requirements_are_reported(database, yaml, text, message):
    yaml.write_text(text)
    with pytest.raises(CommandError, match=message):
        run(yaml)


def test_batch_size_is_at_least_one(database, yaml):
    with pytest.raises(CommandError, match="at least 1"):
        run(yaml, "--batch", "0")


# The graph of an embedder.


@postgres
def test_hnsw_index_finds_what_the_scan_finds(owner, yaml, monkeypatch):
    for number in range(12):
        index_fact(owner, f"tea number {number}")
    stranger = UserId(uuid.uuid4())
    index_fact(stranger, "tea number 3")
    run(yaml)
    (vector,), _ = embedding.embed_texts(_embedder(), ["tea number 3"])
    query = Query("", vector)
    plain = search.search_facts(owner, query, limit=5)
    everything = {f.fact.id for f in search.search_facts(owner, query, limit=12)}
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE memory_passage")
    monkeypatch.setattr(hnsw_index, "GRAPH_COST", 1)
    asked = []
    rows = postgres_index._fetch_rows
    monkeypatch.setattr(
        postgres_index, "_fetch_rows", lambda q, v: asked.append(q) or rows(q, v)
    )
    found = search.search_facts(owner, query, limit=5)
    assert any("hnsw.iterative_scan" in query for query in asked)
    assert [f.score.similarity for f in found] == pytest.approx(
        [f.score.similarity for f in plain], abs=1e-2
    )
    assert found[0].fact.content == "tea number 3"
    assert {f.fact.id for f in found} <= everything


@postgres
def test_invalid_hnsw_index_is_rebuilt(database):
    name = hnsw_index.index_name(NEW)
    hnsw_index.ensure_index(NEW, 32)
    with connection.cursor() as cursor:
        cursor.execute(
            "UPDATE pg_index SET indisvalid = false WHERE indexrelid = %s::regclass",
            [name],
        )
    assert not hnsw_index.is_faster(NEW, 10**9)
    assert hnsw_index.ensure_index(NEW, 32)
    assert hnsw_index.is_faster(NEW, 10**9)
    assert not hnsw_index.ensure_index(NEW, 32), "built twice"


@postgres
def test_embedder_name_is_escaped_in_sql(database):
    assert hnsw_index.ensure_index("it's; DROP TABLE memory_passage", 8)
    assert not hnsw_index.ensure_index("too:wide", 5_000)


def test_hnsw_index_is_used_only_for_many_passages(database):
    assert not hnsw_index.is_faster(NEW, 100)


def test_vector_for_a_removed_passage_is_dropped(owner):
    index_fact(owner, "tea")
    waiting = list(Passage.objects.pending(NEW).with_text())
    Passage.objects.all().delete()
    Passage.objects.set_vectors([(waiting[0], vector(1), "")])
    assert Passage.objects.count() == 0
