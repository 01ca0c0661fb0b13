"""Figures of tool calls: their cost in a turn, and leaks of many concurrent calls."""

import json
import os
import statistics
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import count

import psutil

from bench.harness.fixtures import BenchSetup
from bench.harness.result_table import Row
from bench.harness.server_processes import QUESTION, TOOL_AGENT, MeasuredProcess, body
from bench.load import LoadRequest
from bench.tool_server import WAIT_MS
from bench.turn_costs.plain_turns import quantile

CONCURRENT = 50
MAX_IDLE_CONNECTIONS = 20
"""Idle connections that a session keeps (`mcp_bridge/client/http_client.py`)."""
ACCEPT = "Accept: application/json, text/event-stream\r\n"
REPLY_CALL = {"name": "reply", "arguments": {"message": QUESTION}}

_users = count()


def tools(bench: BenchSetup) -> Iterator[Row]:
    """The cost of one MCP call over HTTP in a turn, and 50 such turns at once."""
    bench.sample(bench.web, _turns(4))  # Opens the session.
    yield from _added(bench)
    yield from _concurrent(bench)


def _turns(number: int, agent: str = TOOL_AGENT) -> list[str]:
    """Return requests of new users."""
    return [body(agent, f"tools-{next(_users)}") for _ in range(number)]


def _added(bench: BenchSetup) -> Iterator[Row]:
    turns, plain, calls, used = [], [], [], []
    size = max(2, bench.sizes.turns // 5)
    for _ in range(bench.sizes.rounds):
        sample = bench.sample(bench.web, _turns(size))
        turns.append(sample.outcome.latencies)
        used.append(sample.cpu_seconds / size * 1e6)
        plain.append(bench.sample(bench.web, _turns(size, "reply")).outcome.latencies)
        calls.append(bench.send(None, _direct(bench, size)).outcome.latencies)
    for share in (0.5, 0.99):
        added = [
            quantile(turn, share) - quantile(without, 0.5) - quantile(call, 0.5)
            for turn, without, call in zip(turns, plain, calls, strict=True)
        ]
        yield Row(
            f"one MCP call in a turn: added, p{share * 100:.0f}",
            statistics.median(added),
            "ms",
            15 if share == 0.5 else None,
            digits=2,
            note="over a turn without it and the call itself; includes a second model "
            "call",
        )
    own = statistics.median(quantile(call, 0.5) for call in calls)
    yield Row(
        "the tool itself, called directly, p50",
        own,
        "ms",
        digits=2,
        note=f"including its wait of {WAIT_MS} ms",
    )
    yield Row("CPU, a turn with one MCP call", statistics.median(used), "µs")


def _direct(bench: BenchSetup, number: int) -> LoadRequest:
    """Return calls for the tool server itself."""
    call = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "tools/call",
        "params": {"name": "wait", "arguments": {}},
    }
    return LoadRequest(
        bench.processes.tool_server_port,
        [json.dumps(call)] * number,
        path="/mcp",
        head=ACCEPT,
        mark="waited",
    )


@dataclass(frozen=True)
class OpenResources:
    """The children, sockets and threads of a process."""

    children: int
    sockets: int
    threads: int

    @classmethod
    def of(cls, process: MeasuredProcess) -> "OpenResources":
        details = psutil.Process(process.pid)
        folder = f"/proc/{process.pid}/fd"
        links = [os.readlink(f"{folder}/{name}") for name in os.listdir(folder)]
        sockets = sum(link.startswith("socket:") for link in links)
        return cls(
            len(details.children(recursive=True)), sockets, details.num_threads()
        )


def _concurrent(bench: BenchSetup) -> Iterator[Row]:
    """Send 50 turns at a time, and compare the open resources before and after."""
    errors = 0
    bench.sample(bench.web, _turns(CONCURRENT), connections=CONCURRENT)
    before = OpenResources.of(bench.web)
    seconds = []
    for _ in range(max(2, bench.sizes.rounds)):
        outcome = bench.sample(
            bench.web, _turns(CONCURRENT), connections=CONCURRENT
        ).outcome
        errors += outcome.errors
        seconds.append(outcome.seconds)
    after = OpenResources.of(bench.web)
    yield Row(
        f"{CONCURRENT} tool turns at once, total",
        statistics.median(seconds) * 1000,
        "ms",
        note=f"one process; each waits {WAIT_MS} ms for its tool",
    )
    yield Row("errors of tool turns meanwhile", errors, "", 0)
    yield Row("child processes left over", after.children - before.children, "", 0)
    left_over = max(0, after.sockets - before.sockets - MAX_IDLE_CONNECTIONS)
    note = f"besides at most {MAX_IDLE_CONNECTIONS} idle connections"
    yield Row("sockets left over", left_over, "", 0, note=note)
    yield Row("threads left over", after.threads - before.threads, "", 0)


def mcp_server(bench: BenchSetup) -> Iterator[Row]:
    """CPU time of an agent called through `/mcp`, compared with a turn at `/v1`."""
    used: dict[str, list[float]] = {"turn": [], "call": [], "list": []}
    size = bench.sizes.turns
    for _ in range(bench.sizes.rounds):
        user = f"tools-{next(_users)}"
        loads = {
            "turn": LoadRequest(bench.web.port, [body("reply", user)] * size),
            "call": _own_server_load(
                bench, "tools/call", REPLY_CALL, '"reply":"word', size, user
            ),
            "list": _own_server_load(
                bench, "tools/list", {}, '"inputSchema"', size, user
            ),
        }
        for name, load in loads.items():
            sample = bench.send(bench.web, load)
            used[name].append(sample.cpu_seconds / size * 1e6)
    turn, call, listing = (statistics.median(blocks) for blocks in used.values())
    yield Row("CPU, an agent called through /mcp", call, "µs")
    yield Row("CPU that /mcp adds to a turn", call - turn, "µs", note="over /v1")
    yield Row("CPU, tools/list at /mcp", listing, "µs")


def _own_server_load(
    bench: BenchSetup, method: str, params: object, mark: str, size: int, user: str
) -> LoadRequest:
    """Return requests to our own MCP server."""
    call = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
    return LoadRequest(
        bench.web.port,
        [json.dumps(call)] * size,
        path=f"/mcp?safety_identifier={user}",
        head=ACCEPT,
        mark=mark,
    )


FIGURES: dict[str, Callable[[BenchSetup], Iterator[Row]]] = {
    "tools": tools,
    "mcp-server": mcp_server,
}
