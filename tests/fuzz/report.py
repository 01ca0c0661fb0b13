"""The report of a run: its requests, its findings, and how to reproduce them."""

import time
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from tests.fuzz.run import Run


def write(run: "Run", out: TextIO) -> int:
    """Print the report; return 1 if there are findings, or if nothing was sent."""
    for line in _lines(run):
        out.write(f"{line}\n")
    has_failed = bool(run.findings or run.problems) or not run.figures.requests
    out.write("fuzz: FAILED\n" if has_failed else "fuzz: ok\n")
    return int(has_failed)


def _lines(run: "Run") -> list[str]:
    figures = run.figures
    names = ", ".join(mode.name for mode in run.modes)
    seconds = time.monotonic() - run.started_at
    lines = [f"fuzz: seed {run.seed}, modes {names}, {seconds:.0f} s in total"]
    lines += [
        f"  {phase:26} {figures.requests[phase]:6,} requests, "
        f"{len(operations):4} operations, {figures.seconds[phase]:4} s"
        for phase, operations in figures.operations.items()
    ]
    statuses = ", ".join(
        f"{status or 'closed'}: {count:,}"
        for status, count in sorted(figures.statuses.items())
    )
    lines.append(f"  responses: {statuses}")
    lines += [
        f"  {name}: grew by at most {size >> 20} MiB in one phase"
        for name, size in run.growth.items()
    ]
    lines.append(f"  freezes that did not recur: {figures.suspects}")
    lines += [f"PROBLEM {problem}" for problem in run.problems]
    for finding in run.findings:
        request = finding.request
        lines += [
            f"FOUND [{finding.mode}] {request.name}: the server {finding.kind}",
            f"  {finding.details}",
            f"  {request.command(run.port)}",
        ]
    if run.unreported:
        lines.append(f"and {run.unreported} more findings like these")
    return lines
