"""The number of instructions of a plain turn in a web process.

`python -m bench instructions [TREE …]` runs a web process of each tree (this one, or
other checkouts with the same environment) under Valgrind's callgrind. Instructions do
not depend on the load of the machine: they vary by half a percent, and CPU time by a
fifth. They do not include caches and system calls.

`--resent auto` counts turns of clients that send the whole conversation each time, with
20 earlier messages, and with this `history`.
"""

import argparse
import json
import re
import shutil
import subprocess
import tempfile
from functools import partial
from pathlib import Path

from bench.harness.server_processes import ROOT, ServerProcesses, body
from bench.load import LoadRequest
from bench.provider import TOKEN, TOKENS

AGENT = "reply"
WARM_UP_TURNS = 40
START_SECONDS = 300.0
EARLIER = 20
"""Messages before the question of a resent conversation."""


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(
        prog="python -m bench instructions", description=__doc__
    )
    parser.add_argument("trees", nargs="*", type=Path, metavar="TREE", default=[ROOT])
    parser.add_argument("--turns", type=int, default=200)
    parser.add_argument("--resent", metavar="HISTORY", help="such as auto or server")
    options = parser.parse_args(arguments)
    if shutil.which("valgrind") is None:
        parser.error("install valgrind")
    counts = [
        count(tree.resolve(), options.turns, options.resent) for tree in options.trees
    ]
    for tree, number in zip(options.trees, counts, strict=True):
        print(
            f"{number / 1000:8,.0f} k instructions  {number / counts[0]:.3f} x  {tree}"
        )


def count(tree: Path, turns: int, resent: str | None = None) -> float:
    """Return the instructions of one turn in a web process of this tree.

    `resent` is the `history` of turns with a conversation; without, they have none.
    """
    rounds = [0] if resent is None else range(0, EARLIER + 1, 2)
    *before, counted = [partial(_bodies, earlier, resent) for earlier in rounds]
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
            for bodies in (*before, counted):
                _send(processes, process.port, bodies("warm", WARM_UP_TURNS))
            for bodies in before:
                _send(processes, process.port, bodies("counted", turns))
            _control("--zero", process.pid)
            _send(processes, process.port, counted("counted", turns))
            _control("--dump", process.pid)
            dump = output.with_name("callgrind.1").read_text()
    total = re.search(r"^(?:totals|summary): (\d+)", dump, re.MULTILINE)
    assert total is not None
    return int(total[1]) / turns


def _bodies(earlier: int, history: str | None, name: str, turns: int) -> list[str]:
    """Return a request of each user, with so many earlier messages."""
    return [_body(f"{name}-{number}", earlier, history) for number in range(turns)]


def _body(user: str, earlier: int, history: str | None) -> str:
    fields = json.loads(body(AGENT, user))
    question, reply = fields["messages"][0]["content"], TOKEN * TOKENS
    fields["messages"] = [
        {"role": "assistant", "content": reply}
        if number % 2
        # Short: all of them fit into the context.
        else {"role": "user", "content": f"{number}: {question[:40]}"}
        for number in range(earlier + 1)
    ]
    if history is not None:
        fields["metadata"] = {"history": history}
    return json.dumps(fields, separators=(",", ":"))


def _send(processes: ServerProcesses, port: int, bodies: list[str]) -> None:
    outcome = processes.sample(None, LoadRequest(port, bodies)).outcome
    if outcome.errors:
        raise RuntimeError(f"turns failed: {outcome.first_error}")


def _control(command: str, pid: int) -> None:
    subprocess.run(
        ["callgrind_control", command, str(pid)],
        check=True,
        stdout=subprocess.DEVNULL,
    )
