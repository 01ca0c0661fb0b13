"""The harness of recall's latency works: with counts too small to mean anything."""

import math

from bench.memory_search import latency


def test_every_retriever_combination_is_measured():
    rows = latency.measure("sqlite", [30], 60)
    ways = ["words and meaning", "words", "meaning", "cold"]
    assert [row.name for row in rows] == [f"30 facts, {way}, p95" for way in ways]
    assert all(math.isfinite(row.value) and row.value > 0 for row in rows)


def test_targets_are_checked():
    row = latency._row(10_000, "words", 1.0, 6.0, 0.5)
    assert (row.target, row.verdict) == (5.0, "MISSED")
    assert latency._row(10_000, "cold", 1.0, 50.0, 0.5).verdict == "ok"
