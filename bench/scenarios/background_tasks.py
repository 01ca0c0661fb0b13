"""How soon a task is begun, and how fast one worker works the queue off.

`python -m bench background` starts a whole server with a broker of its own and a model
that answers at once. Tasks are asked for one by one, then a thousand that are all due
at the same instant, of as many users. Then clients chat, with and without tasks beside
them.
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
PATIENCE_SECONDS = 120.0
POSTS_A_SECOND = 40.0
"""At least so many tasks are taken on meanwhile: how long they must wait to begin."""
BESIDE_A_SECOND = 20
"""Chats, and the tasks done beside them."""
BESIDE_SECONDS = 10
BLOCKS = 4
"""Of chats alone, and of chats beside tasks; they take turns."""


class TaskServer:
    """A server, and the queue in its database."""

    def __init__(self, directory: Path, port: int) -> None:
        self._directory = directory
        self._client = httpx2.Client(base_url=f"http://127.0.0.1:{port}", timeout=20)

    def wait(self) -> None:
        """Wait until it serves and its worker has done something."""
        _until(self._serves)
        self.add("warm")
        _until(lambda: not self.count_open())

    def _serves(self) -> bool:
        try:
            return self._client.get("/health/ready").status_code == 200
        except httpx2.HTTPError:
            return False

    def add(self, user: str, **more: float) -> None:
        """Ask for a task."""
        body = {"agent": "work", "prompt": "Go.", "safety_identifier": user, **more}
        self._client.post("/v1/tasks", json=body).raise_for_status()

    def chat(self, user: str) -> None:
        """Have a turn as a client."""
        message = {"role": "user", "content": "Go on."}
        body = {"model": "work", "messages": [message], "safety_identifier": user}
        self._client.post("/v1/chat/completions", json=body).raise_for_status()

    def worker_pid(self) -> int:
        record = json.loads((self._directory / ".coulisse/processes.json").read_text())
        pids = {child["name"]: child["pid"] for child in record["children"]}
        return int(pids["worker"])

    def count_open(self) -> int:
        """Return how many tasks have not ended."""
        [(count,)] = self._ask(
            "SELECT count(*) FROM tasks_task WHERE finished_at IS NULL"
        )
        return int(count)

    def begun(self) -> list[float]:
        """Return after how many milliseconds each task was begun."""
        rows = self._ask(
            "SELECT created_at, started_at FROM tasks_task "
            "WHERE state = 'done' ORDER BY created_at"
        )
        return [(_at(started) - _at(created)) * 1e3 for created, started in rows]

    def drained(self, due: float) -> tuple[int, float]:
        """Return how many tasks were done that were due then, and after how long."""
        rows = self._ask("SELECT finished_at FROM tasks_task WHERE state = 'done'")
        ends = [end for (text,) in rows if (end := _at(text)) > due]
        return len(ends), max(ends) - due

    def _ask(self, query: str) -> list[tuple[str, ...]]:
        path = self._directory / ".coulisse/coulisse-memory.db"
        with closing(sqlite3.connect(path, timeout=10)) as database:
            return database.execute(query).fetchall()


def _at(text: str) -> float:
    return datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()


def _until(is_so: Callable[[], bool]) -> None:
    until = time.monotonic() + PATIENCE_SECONDS
    while not is_so():
        if time.monotonic() > until:
            raise RuntimeError("it did not happen in time")
        time.sleep(0.05)


def measure(background: TaskServer, *, singles: int, many: int) -> Iterator[Row]:
    """Yield the figures."""
    for _ in range(singles):
        background.add("single")
        _until(lambda: not background.count_open())
    begun = background.begun()[-singles:]
    slow = statistics.quantiles(begun, n=100)[98] if singles > 1 else begun[0]
    yield Row(
        "enqueue to running, p50",
        statistics.median(begun),
        "ms",
        20,
        1,
        f"p99 {slow:.0f} ms",
    )
    due = time.time() + max(2.0, many / POSTS_A_SECOND)
    with ThreadPoolExecutor(8) as pool:
        list(
            pool.map(
                lambda n: background.add(f"u{n}", delay_seconds=due - time.time()),
                range(many),
            )
        )
    if time.time() > due:
        raise RuntimeError("the tasks were not taken on in time")
    pid = background.worker_pid()
    before = cpu_seconds(pid)
    time.sleep(max(0.0, due - time.time()))
    _until(lambda: not background.count_open())
    count, seconds = background.drained(due)
    used = (cpu_seconds(pid) - before) / count
    yield Row(
        f"{many} tasks drained, each",
        seconds / count * 1e3,
        "ms",
        10,
        1,
        f"{count / seconds:.0f} a second, {used * 1e3:.1f} ms of the worker's CPU each",
    )


def measure_chat_latency(
    background: TaskServer, *, blocks: int, seconds: float
) -> Iterator[Row]:
    """Yield how long clients wait while tasks are done, and while none are."""
    alone: list[float] = []
    beside: list[float] = []
    count = int(seconds * BESIDE_A_SECOND)
    for _ in range(blocks):
        alone += _chat(background, count)
        ahead = count / POSTS_A_SECOND
        for number in range(count):
            # All are asked for before the first chat.
            background.add("beside", delay_seconds=ahead + number / BESIDE_A_SECOND)
            ahead = max(0.0, ahead - 1 / POSTS_A_SECOND)
        beside += _chat(background, count)
        _until(lambda: not background.count_open())
    quick, slow = (statistics.quantiles(each, n=100)[98] for each in (alone, beside))
    middle = statistics.median(alone), statistics.median(beside)
    yield Row(
        f"p99 of {BESIDE_A_SECOND} chats a second, alone",
        *(quick, "ms"),
        digits=1,
        note=f"p50 {middle[0]:.1f} ms",
    )
    yield Row(
        f"p99 beside {BESIDE_A_SECOND} tasks a second",
        *(slow, "ms"),
        digits=1,
        note=f"p50 {middle[1]:.1f} ms",
    )
    yield Row("tasks beside them: p99 over p99 alone", slow / quick, "x", 1.2, digits=2)


def _chat(background: TaskServer, count: int) -> list[float]:
    """Chat at a steady pace; return what each reply took, in milliseconds."""
    took = []
    began = time.perf_counter()
    for number in range(count):
        time.sleep(max(0.0, began + number / BESIDE_A_SECOND - time.perf_counter()))
        sent = time.perf_counter()
        background.chat(f"chat-{number}")
        took.append((time.perf_counter() - sent) * 1e3)
    return took


def main(arguments: list[str]) -> None:
    """Measure and print."""
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
        background = TaskServer(directory, options.port)
        background.wait()
        print("measuring …", file=sys.stderr, flush=True)
        rows = [
            *measure(background, singles=options.singles, many=options.tasks),
            *measure_chat_latency(background, blocks=BLOCKS, seconds=BESIDE_SECONDS),
        ]
        print(render(rows))
