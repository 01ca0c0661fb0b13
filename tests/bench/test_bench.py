"""The harness, with minimal sizes."""

import math
from types import SimpleNamespace

import pytest

from bench.__main__ import FIGURES, measure
from bench.harness.fixtures import SMALL, BenchSetup
from bench.harness.result_table import Row, render
from bench.turn_costs.plain_turns import quantile


def test_every_figure_is_measured_without_an_error():
    rows, error = measure(list(FIGURES), SMALL)

    assert error == ""
    assert [row.name for row in rows if not math.isfinite(row.value)] == []
    assert {row.name for row in rows if row.name.startswith("errors")} == {
        "errors meanwhile",
        "errors of tool turns meanwhile",
    }
    assert all(name in render(rows) for name in ("20,000 over 20", "memory after"))


def test_measure_refuses_an_unexpected_context_size(monkeypatch):
    bench = BenchSetup(SMALL)
    bench.web = None
    # The preamble, ten messages and the question.
    bench.processes = SimpleNamespace(last_body=lambda: '"role":' * 12)
    monkeypatch.setattr(bench, "sample", lambda process, bodies: None)
    with pytest.raises(RuntimeError, match="received 10 messages of history"):
        bench._check_context()


def test_missed_target_is_marked():
    assert Row("time", 5, "ms", 4).verdict == "MISSED"
    assert Row("time", 4, "ms", 4).verdict == "ok"
    assert Row("time", math.nan, "ms", 4).verdict == "MISSED"
    assert Row("time", 5, "ms").verdict == ""


def test_quantiles_are_values_that_occurred():
    assert quantile([3, 1, 2], 0.5) == 2
    assert quantile([3, 1, 2], 0.99) == 3
    assert math.isnan(quantile([], 0.5))
