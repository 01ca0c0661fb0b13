"""Measures the latency of recall, also with data of many other users.

`python -m bench recall-latency`; docs/search.md explains the figures.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

from bench.harness.result_table import Row, render
from bench.memory_search.quality import BACKENDS, database

SIZES = (10_000, 100_000)
TARGETS_MS = {10_000: 5.0, 100_000: 25.0}
COLD_TARGETS_MS = {10_000: 60.0}
OTHER_FACTS = 50_000
SMALL = 500


def main(arguments: list[str]) -> None:
    """Measure by the arguments, and print the results."""
    parser = argparse.ArgumentParser("python -m bench recall-latency")
    parser.add_argument("--backend", choices=BACKENDS, action="append")
    parser.add_argument(
        "--others",
        type=int,
        default=OTHER_FACTS,
        help="facts of thousands of other users; 1000000 takes minutes",
    )
    parser.add_argument("--size", type=int, action="append", help="facts of the user")
    parser.add_argument(
        "--small", action="store_true", help="use minimal sizes, to test the harness"
    )
    options = parser.parse_args(arguments)
    sizes = [SMALL] if options.small else options.size or list(SIZES)
    others = SMALL if options.small else options.others
    for backend in options.backend or BACKENDS:
        print(f"measuring on {backend} …", file=sys.stderr, flush=True)
        print(f"\n{backend}, {others:,} facts of other users")
        print(render(measure(backend, sizes, others)))


def measure(backend: str, sizes: list[int], others: int) -> list[Row]:
    """Return a row for each size and kind of search, also cold ones on SQLite.

    Raises CalledProcessError if the measuring process fails.
    """
    command = [sys.executable, "-P", "-m", "bench.memory_search.latency_run"]
    with (
        tempfile.TemporaryDirectory(prefix="coulisse-recall-") as directory,
        database(backend, Path(directory) / backend) as environment,
    ):
        done = subprocess.run(
            [*command, json.dumps([sizes, others])],
            # More threads would only contend for the cores.
            env={**environment, "OPENBLAS_NUM_THREADS": "1"},
            check=True,
            stdout=subprocess.PIPE,
        )
    return [_row(*result) for result in json.loads(done.stdout)]


def _row(size: int, kind: str, p50_ms: float, p95_ms: float, cpu_ms: float) -> Row:
    targets = COLD_TARGETS_MS if kind.startswith("cold") else TARGETS_MS
    return Row(
        f"{size:,} facts, {kind}, p95",
        p95_ms,
        "ms",
        targets.get(size),
        digits=2,
        note=f"p50 {p50_ms:.2f} ms, {cpu_ms:.2f} ms of CPU in this process",
    )
