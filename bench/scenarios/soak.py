"""Soak test: all kinds of load at once while processes are killed; is anything lost?

`python -m bench soak [--minutes 10]` starts a server and gives it chat, tasks, a cron
every second, judges and a sidecar that crashes every five seconds. Every quarter of a
minute the worker, the broker or a web process is killed with SIGKILL. When the load
has ended and the queue is empty, `bench.scenarios.soak_audit` counts the results in the
database.
"""

import argparse
import json
import os
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path

import httpx2
import psutil

from bench.harness.process_metrics import rss_mb
from bench.harness.result_table import Row, render
from bench.harness.server_processes import ROOT

CHATS = 4
"""Connections that chat, each at `CHATS_PER_SECOND / CHATS`."""
CHATS_PER_SECOND = 4.0
TASKS_PER_SECOND = 2.0
KILL_SECONDS = 15.0
SAMPLE_SECONDS = 5.0
DRAIN_SECONDS = 180.0
TIMEOUT_SECONDS = 60.0
KILLED_PROCESSES = ("worker", "broker", "web-1")
CONFIG = """
server: {{port: {port}}}
providers:
  openai: {{api_key: none, base_url: "{provider}", breaker: {{failures: 1000}}}}
tasks: {{workers: 4}}
agents:
  - {{name: chat, provider: openai, model: reply, memory: false, judges: [quality]}}
  - {{name: work, provider: openai, model: reply, memory: false}}
judges:
  - {{name: quality, provider: openai, model: judge, rubrics: {{quality: Is it good?}}}}
triggers:
  - name: tick
    type: cron
    schedule: "* * * * * *"
    agent: work
    prompt: tick
    user: clock
    catch_up: true
sidecars:
  - name: crash
    command: /bin/sh
    args: ["-c", "echo soaking; sleep 5; exit 1"]
"""


@dataclass
class SoakLog:
    """The sent requests and their results."""

    chats: dict[str, bool] = field(default_factory=dict)
    """Each message that was sent, and whether it was answered with 200."""
    tasks: dict[str, str] = field(default_factory=dict)
    """The id of each task that was accepted, by its prompt."""
    killed: list[str] = field(default_factory=list)
    memory_mb: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    """Memory by name of the process."""
    first_error: str = ""


class SoakTest:
    """A server under load, and the log of the test."""

    def __init__(self, directory: Path, port: int, seconds: float) -> None:
        self.log = SoakLog()
        self._directory = directory
        self._url = f"http://127.0.0.1:{port}"
        self._seconds = seconds
        self._is_stopping = threading.Event()

    def run(self) -> None:
        """Run the load, then wait until the server responses again."""
        self._wait_until(self._is_serving)
        jobs: list[Callable[[], None]] = [self._chat] * CHATS
        jobs += [self._send_tasks, self._kill, self._sample_memory]
        threads = [threading.Thread(target=job) for job in jobs]
        for thread in threads:
            thread.start()
        time.sleep(self._seconds)
        self._is_stopping.set()
        for thread in threads:
            thread.join()
        self._wait_until(self._is_serving)

    def _wait_until(self, condition: Callable[[], bool]) -> None:
        deadline = time.monotonic() + TIMEOUT_SECONDS
        while not condition():
            if time.monotonic() > deadline:
                raise RuntimeError("the server does not response")
            time.sleep(0.2)

    def _is_serving(self) -> bool:
        with suppress(httpx2.HTTPError):
            return httpx2.get(f"{self._url}/health/ready").status_code == 200
        return False

    def _chat(self) -> None:
        # One user per connection, so that none waits for the thread of another.
        user = f"chat-{threading.get_ident()}"
        with httpx2.Client(base_url=self._url, timeout=20) as client:
            number = 0
            while not self._is_stopping.wait(
                random.expovariate(CHATS_PER_SECOND / CHATS)
            ):
                number += 1
                self._send_chat(client, user, f"{user} message {number}")

    def _send_chat(self, client: httpx2.Client, user: str, text: str) -> None:
        self.log.chats[text] = False
        message = {"role": "user", "content": text}
        body = {"model": "chat", "messages": [message], "safety_identifier": user}
        with suppress(httpx2.HTTPError):
            response = client.post("/v1/chat/completions", json=body)
            self.log.chats[text] = response.status_code == 200
            if response.status_code != 200:
                self.log.first_error = self.log.first_error or response.text

    def _send_tasks(self) -> None:
        with httpx2.Client(base_url=self._url, timeout=5) as client:
            number = 0
            while not self._is_stopping.wait(random.expovariate(TASKS_PER_SECOND)):
                number += 1
                self._send_task(client, f"task {number}")

    def _send_task(self, client: httpx2.Client, prompt: str) -> None:
        """Send until it is accepted; the key prevents a second task."""
        headers = {"Idempotency-Key": prompt, "X-Coulisse-User": "tasks"}
        body = {"agent": "work", "prompt": prompt}
        deadline = time.monotonic() + TIMEOUT_SECONDS
        while time.monotonic() < deadline:
            with suppress(httpx2.HTTPError):
                response = client.post("/v1/tasks", json=body, headers=headers)
                if response.is_success:
                    self.log.tasks[prompt] = response.json()["id"]
                    return
                self.log.first_error = self.log.first_error or response.text
            time.sleep(0.2)
        self.log.tasks[prompt] = ""

    def _kill(self) -> None:
        number = 0
        while not self._is_stopping.wait(KILL_SECONDS):
            name = KILLED_PROCESSES[number % len(KILLED_PROCESSES)]
            number += 1
            if (pid := self._pids().get(name)) is not None:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
                    self.log.killed.append(name)

    def _sample_memory(self) -> None:
        while not self._is_stopping.wait(SAMPLE_SECONDS):
            for name, pid in self._pids().items():
                with suppress(psutil.Error):
                    self.log.memory_mb[name].append(rss_mb(pid))

    def _pids(self) -> dict[str, int]:
        try:
            text = (self._directory / ".coulisse/processes.json").read_text()
            record = json.loads(text)
        except (OSError, ValueError):
            return {}
        pids = {child["name"]: child["pid"] for child in record["children"]}
        return {"supervisor": record["pid"], **pids}


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m bench soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--port", type=int, default=8499)
    parser.add_argument("--keep", action="store_true", help="keep the directory")
    options = parser.parse_args(arguments)
    directory = Path(tempfile.mkdtemp(prefix="coulisse-soak-"))
    print(f"soaking in {directory} …", file=sys.stderr)
    soak = SoakTest(directory, options.port, options.minutes * 60)
    with ExitStack() as stack:
        start(stack, directory, options.port)
        soak.run()
        results = _audit(directory, soak.log)
    print(render(list(_rows(soak.log, results, options.minutes))))
    if soak.log.first_error:
        print(f"first error of a client: {soak.log.first_error[:300]}")
    if not options.keep:
        subprocess.run(["rm", "-rf", str(directory)], check=False)


def start(stack: ExitStack, directory: Path, port: int, config: str = CONFIG) -> None:
    """Start a server and a provider; both end with the stack."""
    provider = subprocess.Popen(
        [sys.executable, "-m", "bench.provider"],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    stack.callback(provider.kill)
    url = f"http://127.0.0.1:{provider.stdout.readline().strip()}/v1"
    (directory / "coulisse.yaml").write_text(config.format(port=port, provider=url))
    log_file = stack.enter_context((directory / "log").open("wb"))
    server = subprocess.Popen(
        [sys.executable, str(ROOT / "manage.py"), "start", "-F"],
        cwd=directory,
        env=_environment(directory),
        stdout=log_file,
        stderr=log_file,
    )
    stack.callback(server.wait)
    stack.callback(server.terminate)


def _environment(directory: Path) -> dict[str, str]:
    return {
        **os.environ,
        "COULISSE_CONFIG": str(directory / "coulisse.yaml"),
        "DJANGO_SETTINGS_MODULE": "coulisse_site.settings",
        "PYTHONPATH": str(ROOT),
    }


def _audit(directory: Path, log: SoakLog) -> dict[str, float]:
    soak_log = {
        "chats": log.chats,
        "tasks": log.tasks,
        "drain_seconds": DRAIN_SECONDS,
    }
    audit = subprocess.run(
        [sys.executable, "-P", "-m", "bench.scenarios.soak_audit"],
        input=json.dumps(soak_log),
        env=_environment(directory),
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    results: dict[str, float] = json.loads(audit.stdout)
    return results


def _rows(log: SoakLog, results: dict[str, float], minutes: float) -> list[Row]:
    answered = sum(log.chats.values())
    killed = ", ".join(f"{name} {log.killed.count(name)}" for name in KILLED_PROCESSES)
    rows = [
        Row("minutes", minutes, digits=1, note=f"killed: {killed}"),
        Row("chats sent", len(log.chats), note=f"{answered} answered"),
        Row("answered chats that are not stored", results["chats_lost"], "", 0),
        Row("chats stored twice", results["chats_twice"], "", 0),
        Row("tasks accepted", sum(map(bool, log.tasks.values()))),
        Row(
            "tasks not accepted",
            sum(not task_id for task_id in log.tasks.values()),
            "",
            0,
        ),
        Row("tasks not done", results["tasks_not_done"], "", 0),
        Row("tasks whose turn is not stored once", results["tasks_not_once"], "", 0),
        Row("ticks of the cron", results["ticks"]),
        Row("ticks that were missed", results["ticks_missed"], "", 0),
        Row("ticks not done", results["ticks_not_done"], "", 0),
        Row("replies judged", results["judged"]),
        Row("replies without their score", results["unjudged"], "", 0),
        Row("tasks errored, of all kinds", results["errored"], "", 0),
        Row("starts of the sidecar", results["sidecar_starts"]),
        Row("open tasks in the queue", results["open"], "", 0),
    ]
    for name, sizes in sorted(log.memory_mb.items()):
        third = max(1, len(sizes) // 3)
        first, last = (
            statistics.median(part) for part in (sizes[:third], sizes[-third:])
        )
        note = f"{first:.0f} MB in the first third, at most {max(sizes):.0f}"
        rows.append(Row(f"memory of {name}, last third", last, "MB", note=note))
    return rows
