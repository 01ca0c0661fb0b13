"""The harness of the recall latency, with minimal sizes."""

import math

import pytest

from bench.memory_search import latency


@pytest.mark.parametrize("backend", ["sqlite", "postgresql"])
def test_every_retriever_combination_is_measured(backend, monkeypatch, tmp_path):
    # The package of PostgreSQL warns if it is not set.
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    rows = latency.measure(backend, [30], 60)
    kinds = ["words and meaning", "words", "meaning"]
    if backend == "sqlite":
        kinds.append("cold")
    assert [row.name for row in rows] == [f"30 facts, {kind}, p95" for kind in kinds]
    assert all(math.isfinite(row.value) and row.value > 0 for row in rows)


def test_targets_are_checked():
    row = latency._row(10_000, "words", 1.0, 6.0, 0.5)
    assert (row.target, row.verdict) == (5.0, "MISSED")
    assert latency._row(10_000, "cold", 1.0, 50.0, 0.5).verdict == "ok"
