"""The number of instructions of a plain turn in a web process.

`python -m bench instructions [TREE …]` runs a web process of each tree (this one, or
other checkouts with the same environment) under Valgrind's callgrind. Instructions do
not depend on the load of the machine: they vary by half a percent, and CPU time by a
fifth. They do not include caches and system calls.
"""

import argparse
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

from bench.harness.server_processes import ROOT, ServerProcesses, body
from bench.load import LoadRequest

AGENT = "reply"
WARM_UP_TURNS = 40
START_SECONDS = 300.0


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(
        prog="python -m bench instructions", description=__doc__
    )
    parser.add_argument("trees", nargs="*", type=Path, metavar="TREE", default=[ROOT])
    parser.add_argument("--turns", type=int, default=200)
    options = parser.parse_args(arguments)
    if shutil.which("valgrind") is None:
        parser.error("install valgrind")
    counts = [count(tree.resolve(), options.turns) for tree in options.trees]
    for tree, number in zip(options.trees, counts, strict=True):
        print(
            f"{number / 1000:8,.0f} k instructions  {number / counts[0]:.3f} x  {tree}"
        )


def count(tree: Path, turns: int) -> float:
    """Return the instructions of one turn in a web process of this tree."""
    with (
        tempfile.TemporaryDirectory() as directory,
        ServerProcesses([AGENT]) as processes,
    ):
        output = Path(directory) / "callgrind"
        # Only the instructions between `--zero` and `--dump` count.
        prefix = ["valgrind", "--tool=callgrind", f"--callgrind-out-file={output}"]
        environment = processes.project("counted", [("user", 10)], [])
        environment["PYTHONPATH"] = str(tree)
        server = processes.serving(
            "processes.web", environment, prefix=prefix, cwd=tree
        )
        with server as process:
            processes.wait_for(process, body(AGENT, "warm"), seconds=START_SECONDS)
            _send(processes, process.port, WARM_UP_TURNS, "warm")
            _control("--zero", process.pid)
            _send(processes, process.port, turns, "counted")
            _control("--dump", process.pid)
            dump = output.with_name("callgrind.1").read_text()
    total = re.search(r"^(?:totals|summary): (\d+)", dump, re.MULTILINE)
    assert total is not None
    return int(total[1]) / turns


def _send(processes: ServerProcesses, port: int, turns: int, name: str) -> None:
    bodies = [body(AGENT, f"{name}-{number}") for number in range(turns)]
    outcome = processes.sample(None, LoadRequest(port, bodies)).outcome
    if outcome.errors:
        raise RuntimeError(f"turns failed: {outcome.first_error}")


def _control(command: str, pid: int) -> None:
    subprocess.run(
        ["callgrind_control", command, str(pid)],
        check=True,
        stdout=subprocess.DEVNULL,
    )
