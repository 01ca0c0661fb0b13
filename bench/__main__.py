"""Measures the server: `python -m bench [FIGURE …] [--turns N] [--json]`.

Other commands: `python -m bench instructions --help`, `memory-quality --help`,
`slow-clients --help`, `soak --help`, `studio --help`.
Always exits with 0: a missed target is a finding, not a failure.
"""

import argparse
import json
import os
import platform
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from bench.harness.fixtures import SMALL, BenchSetup, BenchSizes
from bench.harness.process_metrics import MachineLoad
from bench.harness.result_table import Row, render
from bench.memory_search import latency, quality
from bench.scenarios import (
    background_tasks,
    bulk_rows,
    limited_turns,
    list_memory,
    slow_clients,
    soak,
    studio_latency,
)
from bench.turn_costs import access_checks, instruction_counts, plain_turns, tool_calls

FIGURES = plain_turns.FIGURES | access_checks.FIGURES | tool_calls.FIGURES
COMMANDS: dict[str, Callable[[list[str]], None]] = {
    "background": background_tasks.main,
    "bulk-rows": bulk_rows.main,
    "instructions": instruction_counts.main,
    "limits": limited_turns.main,
    "list-memory": list_memory.main,
    "memory-quality": quality.main,
    "recall-latency": latency.main,
    "slow-clients": slow_clients.main,
    "soak": soak.main,
    "studio": studio_latency.main,
}


def machine() -> str:
    """Return the processor, cores and Python version."""
    model = platform.processor() or platform.machine()
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        lines = cpuinfo.read_text().splitlines()
        names = [line.split(":")[1].strip() for line in lines if "model name" in line]
        model = names[0] if names else model
    return f"{model}, {os.cpu_count()} cores, Python {platform.python_version()}"


def measure(names: list[str], sizes: BenchSizes) -> tuple[list[Row], str]:
    """Return the figures, and the first error of a client, if any."""
    rows: list[Row] = []
    with BenchSetup(sizes) as bench:
        for name in names:
            print(f"measuring {name} …", file=sys.stderr, flush=True)
            rows += FIGURES[name](bench)
        return rows, bench.first_error


def main(arguments: list[str] | None = None) -> None:
    words = sys.argv[1:] if arguments is None else arguments
    if words and words[0] in COMMANDS:
        COMMANDS[words[0]](words[1:])
        return
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("figures", nargs="*", metavar="FIGURE", help=", ".join(FIGURES))
    parser.add_argument(
        "--turns", type=int, help="number of turns of the memory figure"
    )
    parser.add_argument(
        "--small", action="store_true", help="use minimal sizes, to test the harness"
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    options = parser.parse_args(words)
    unknown = set(options.figures) - FIGURES.keys()
    if unknown:
        parser.error(
            f"unknown figure: {', '.join(unknown)}; choose from {', '.join(FIGURES)}"
        )
    sizes = SMALL if options.small else BenchSizes()
    if options.turns is not None:
        sizes = replace(sizes, memory_turns=options.turns)
    machine_load = MachineLoad()
    rows, error = measure(options.figures or list(FIGURES), sizes)
    report = machine_load.report()
    if options.json:
        print(
            json.dumps(
                {
                    "machine": machine(),
                    "machine_load": report,
                    "error": error,
                    "figures": [row.as_json() for row in rows],
                },
                indent=1,
            )
        )
        return
    print(f"{machine()}\n{report}\n")
    print(render(rows))
    missed = sum(row.verdict == "MISSED" for row in rows)
    print(f"\n{missed} targets missed" if missed else "\nall targets met")
    if error:
        print(f"first error: {error}")


if __name__ == "__main__":
    main()
