"""How soon a task starts, and how fast one worker drains the queue.

`python -m bench background` starts a whole server with its own broker and a model that
replies at once. Tasks are submitted one by one, then a thousand of as many users that
are due at the same instant. Then clients chat, with and without concurrent tasks.
"""

import argparse
import json
import sqlite3
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from datetime import UTC, datetime
from pathlib import Path

import httpx2

from bench.harness.process_metrics import cpu_seconds
from bench.harness.result_table import Row, render
from bench.scenarios import soak

CONFIG = """
server: {{port: {port}}}
providers:
  openai: {{api_key: none, base_url: "{provider}"}}
tasks: {{workers: {workers}}}
agents:
  - {{name: work, provider: openai, model: reply, memory: false}}
"""
TIMEOUT_SECONDS = 120.0
MIN_SUBMITTED_PER_SECOND = 40.0
"""Minimum rate of submissions, which determines the due time."""
RATE_PER_SECOND = 20
"""Rate of the chats, and of the concurrent tasks."""
ROUND_SECONDS = 10
ROUNDS = 4
"""Rounds of chats without and with tasks, in alternation."""


class TaskServer:
    """A server, and the queue in its database."""

    def __init__(self, directory: Path, port: int) -> None:
        self._directory = directory
        self._client = httpx2.Client(base_url=f"http://127.0.0.1:{port}", timeout=20)

    def wait(self) -> None:
        """Wait until the server answers and its worker has run a task."""
        _wait_until(self._is_serving)
        self.submit("warm")
        _wait_until(lambda: not self.count_open())

    def _is_serving(self) -> bool:
        try:
            return self._client.get("/health/ready").status_code == 200
        except httpx2.HTTPError:
            return False

    def submit(self, user: str, **options: float) -> None:
        """Submit a task."""
        body = {"agent": "work", "prompt": "Go.", "safety_identifier": user, **options}
        self._client.post("/v1/tasks", json=body).raise_for_status()

    def chat(self, user: str) -> None:
        """Send a chat request."""
        message = {"role": "user", "content": "Go on."}
        body = {"model": "work", "messages": [message], "safety_identifier": user}
        self._client.post("/v1/chat/completions", json=body).raise_for_status()

    def worker_pid(self) -> int:
        record = json.loads((self._directory / ".coulisse/processes.json").read_text())
        pids = {child["name"]: child["pid"] for child in record["children"]}
        return int(pids["worker"])

    def count_open(self) -> int:
        """Return the number of tasks that have not ended."""
        [(count,)] = self._query(
            "SELECT count(*) FROM tasks_task WHERE finished_at IS NULL"
        )
        return int(count)

    def start_delays(self) -> list[float]:
        """Return the milliseconds until each task started."""
        rows = self._query(
            "SELECT created_at, started_at FROM tasks_task "
            "WHERE state = 'done' ORDER BY created_at"
        )
        return [
            (_timestamp(started) - _timestamp(created)) * 1e3
            for created, started in rows
        ]

    def drain_time(self, due: float) -> tuple[int, float]:
        """Return the number of tasks that ended after `due`, and the seconds."""
        rows = self._query("SELECT finished_at FROM tasks_task WHERE state = 'done'")
        ends = [end for (text,) in rows if (end := _timestamp(text)) > due]
        return len(ends), max(ends) - due

    def _query(self, query: str) -> list[tuple[str, ...]]:
        path = self._directory / ".coulisse/coulisse-memory.db"
        with closing(sqlite3.connect(path, timeout=10)) as database:
            return database.execute(query).fetchall()


def _timestamp(text: str) -> float:
    return datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()


def _wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + TIMEOUT_SECONDS
    while not condition():
        if time.monotonic() > deadline:
            raise RuntimeError("timed out")
        time.sleep(0.05)


def measure(server: TaskServer, *, singles: int, many: int) -> Iterator[Row]:
    """Yield the figures of single tasks and of a full queue."""
    for _ in range(singles):
        server.submit("single")
        _wait_until(lambda: not server.count_open())
    delays = server.start_delays()[-singles:]
    p99 = statistics.quantiles(delays, n=100)[98] if singles > 1 else delays[0]
    yield Row(
        "enqueue to running, p50",
        statistics.median(delays),
        "ms",
        20,
        1,
        f"p99 {p99:.0f} ms",
    )
    due = time.time() + max(2.0, many / MIN_SUBMITTED_PER_SECOND)
    with ThreadPoolExecutor(8) as pool:
        list(
            pool.map(
                lambda n: server.submit(f"u{n}", delay_seconds=due - time.time()),
                range(many),
            )
        )
    if time.time() > due:
        raise RuntimeError("the tasks were not submitted in time")
    pid = server.worker_pid()
    before = cpu_seconds(pid)
    time.sleep(max(0.0, due - time.time()))
    _wait_until(lambda: not server.count_open())
    count, seconds = server.drain_time(due)
    cpu = (cpu_seconds(pid) - before) / count
    yield Row(
        f"{many} tasks drained, each",
        seconds / count * 1e3,
        "ms",
        10,
        1,
        f"{count / seconds:.0f} a second, {cpu * 1e3:.1f} ms of the worker's CPU each",
    )


def measure_chat_latency(
    server: TaskServer, *, blocks: int, seconds: float
) -> Iterator[Row]:
    """Yield the latency of chats, with and without concurrent tasks."""
    alone: list[float] = []
    with_tasks: list[float] = []
    count = int(seconds * RATE_PER_SECOND)
    for _ in range(blocks):
        alone += _chat(server, count)
        lead = count / MIN_SUBMITTED_PER_SECOND
        for number in range(count):
            # All are submitted before the first chat.
            server.submit("concurrent", delay_seconds=lead + number / RATE_PER_SECOND)
            lead = max(0.0, lead - 1 / MIN_SUBMITTED_PER_SECOND)
        with_tasks += _chat(server, count)
        _wait_until(lambda: not server.count_open())
    quick, slow = (
        statistics.quantiles(times, n=100)[98] for times in (alone, with_tasks)
    )
    medians = statistics.median(alone), statistics.median(with_tasks)
    yield Row(
        f"p99 of {RATE_PER_SECOND} chats a second, alone",
        quick,
        "ms",
        digits=1,
        note=f"p50 {medians[0]:.1f} ms",
    )
    yield Row(
        f"p99 with {RATE_PER_SECOND} tasks a second",
        slow,
        "ms",
        digits=1,
        note=f"p50 {medians[1]:.1f} ms",
    )
    yield Row("p99 with tasks over p99 alone", slow / quick, "x", 1.2, digits=2)


def _chat(server: TaskServer, count: int) -> list[float]:
    """Send chats at a steady rate; return their latencies in milliseconds."""
    latencies = []
    started_at = time.perf_counter()
    for number in range(count):
        time.sleep(
            max(0.0, started_at + number / RATE_PER_SECOND - time.perf_counter())
        )
        sent_at = time.perf_counter()
        server.chat(f"chat-{number}")
        latencies.append((time.perf_counter() - sent_at) * 1e3)
    return latencies


def main(arguments: list[str]) -> None:
    """Measure, and print the results."""
    parser = argparse.ArgumentParser(
        prog="python -m bench background", description=__doc__
    )
    parser.add_argument("--tasks", type=int, default=1_000)
    parser.add_argument("--singles", type=int, default=100)
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--port", type=int, default=8498)
    options = parser.parse_args(arguments)
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        config = CONFIG.replace("{workers}", str(options.workers))
        soak.start(stack, directory, options.port, config)
        server = TaskServer(directory, options.port)
        server.wait()
        print("measuring …", file=sys.stderr, flush=True)
        rows = [
            *measure(server, singles=options.singles, many=options.tasks),
            *measure_chat_latency(server, blocks=ROUNDS, seconds=ROUND_SECONDS),
        ]
        print(render(rows))
