"""What a run tells: what it sent, what it found, and how to see that again."""

import time
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from tests.fuzz.run import Run


def write(run: "Run", out: TextIO) -> int:
    """Print the report; return 1 where something was found, or nothing was sent."""
    for line in _lines(run):
        out.write(f"{line}\n")
    is_bad = bool(run.findings or run.troubles) or not run.figures.requests
    out.write("fuzz: FAILED\n" if is_bad else "fuzz: ok\n")
    return int(is_bad)


def _lines(run: "Run") -> list[str]:
    figures = run.figures
    names = ", ".join(mode.name for mode in run.modes)
    seconds = time.monotonic() - run.begun
    lines = [f"fuzz: seed {run.seed}, modes {names}, {seconds:.0f} s in all"]
    lines += [
        f"  {phase:26} {figures.requests[phase]:6,} requests, "
        f"{len(operations):4} operations, {figures.seconds[phase]:4} s"
        for phase, operations in figures.operations.items()
    ]
    answers = ", ".join(
        f"{status or 'closed'}: {count:,}"
        for status, count in sorted(figures.statuses.items())
    )
    lines.append(f"  answers: {answers}")
    lines += [
        f"  {name}: grew by at most {size >> 20} MiB in one phase"
        for name, size in run.grown.items()
    ]
    lines.append(f"  silences that were none when sent alone: {figures.suspects}")
    lines += [f"TROUBLE {trouble}" for trouble in run.troubles]
    for finding in run.findings:
        request = finding.request
        lines += [
            f"FOUND [{finding.mode}] {request.name}: the server {finding.kind}",
            f"  {finding.says}",
            f"  {request.command(run.port)}",
        ]
    if run.unreported:
        lines.append(f"and {run.unreported} more like these")
    return lines
