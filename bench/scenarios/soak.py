"""Everything at once for a while, with processes killed in turn: is anything lost?

`python -m bench soak [--minutes 10]` starts a server and gives it chat, tasks, a cron
every second, judges and a sidecar that crashes every five seconds. Every quarter of a
minute the worker, the broker or a web process is killed with SIGKILL. When the load
has ended and the queue is empty, `bench.scenarios.soak_audit` counts in the database
what came of it all.
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
"""Connections that chat, each at `CHATS_A_SECOND / CHATS`."""
CHATS_A_SECOND = 4.0
TASKS_A_SECOND = 2.0
KILL_SECONDS = 15.0
LOOK_SECONDS = 5.0
DRAIN_SECONDS = 180.0
PATIENCE_SECONDS = 60.0
VICTIMS = ("worker", "broker", "web-1")
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
    """What was sent and what came back."""

    chats: dict[str, bool] = field(default_factory=dict)
    """Each message that was sent, and whether it was answered with 200."""
    tasks: dict[str, str] = field(default_factory=dict)
    """The id of each task that was accepted, by its prompt."""
    killed: list[str] = field(default_factory=list)
    memory_mb: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    """By name of the process."""
    first_error: str = ""


class SoakTest:
    """A server under load, and its ledger."""

    def __init__(self, directory: Path, port: int, seconds: float) -> None:
        self.ledger = SoakLog()
        self._directory = directory
        self._url = f"http://127.0.0.1:{port}"
        self._seconds = seconds
        self._over = threading.Event()

    def run(self) -> None:
        """Have it all happen, then wait until nothing is left to do."""
        self._wait_until(self._serves)
        jobs: list[Callable[[], None]] = [self._chat] * CHATS
        jobs += [self._send_tasks, self._kill, self._look]
        threads = [threading.Thread(target=job) for job in jobs]
        for thread in threads:
            thread.start()
        time.sleep(self._seconds)
        self._over.set()
        for thread in threads:
            thread.join()
        self._wait_until(self._serves)

    def _wait_until(self, is_so: Callable[[], bool]) -> None:
        until = time.monotonic() + PATIENCE_SECONDS
        while not is_so():
            if time.monotonic() > until:
                raise RuntimeError("the server does not serve")
            time.sleep(0.2)

    def _serves(self) -> bool:
        with suppress(httpx2.HTTPError):
            return httpx2.get(f"{self._url}/health/ready").status_code == 200
        return False

    def _chat(self) -> None:
        # A user for each, so that nobody waits for another's thread.
        user = f"chat-{threading.get_ident()}"
        with httpx2.Client(base_url=self._url, timeout=20) as client:
            number = 0
            while not self._over.wait(random.expovariate(CHATS_A_SECOND / CHATS)):
                number += 1
                self._say(client, user, f"{user} says {number}")

    def _say(self, client: httpx2.Client, user: str, text: str) -> None:
        self.ledger.chats[text] = False
        message = {"role": "user", "content": text}
        body = {"model": "chat", "messages": [message], "safety_identifier": user}
        with suppress(httpx2.HTTPError):
            answer = client.post("/v1/chat/completions", json=body)
            self.ledger.chats[text] = answer.status_code == 200
            if answer.status_code != 200:
                self.ledger.first_error = self.ledger.first_error or answer.text

    def _send_tasks(self) -> None:
        with httpx2.Client(base_url=self._url, timeout=5) as client:
            number = 0
            while not self._over.wait(random.expovariate(TASKS_A_SECOND)):
                number += 1
                self._send_task(client, f"task {number}")

    def _send_task(self, client: httpx2.Client, prompt: str) -> None:
        """Send until it is accepted: with a key, asking again adds no second one."""
        headers = {"Idempotency-Key": prompt, "X-Coulisse-User": "tasks"}
        body = {"agent": "work", "prompt": prompt}
        until = time.monotonic() + PATIENCE_SECONDS
        while time.monotonic() < until:
            with suppress(httpx2.HTTPError):
                answer = client.post("/v1/tasks", json=body, headers=headers)
                if answer.is_success:
                    self.ledger.tasks[prompt] = answer.json()["id"]
                    return
                self.ledger.first_error = self.ledger.first_error or answer.text
            time.sleep(0.2)
        self.ledger.tasks[prompt] = ""

    def _kill(self) -> None:
        number = 0
        while not self._over.wait(KILL_SECONDS):
            name = VICTIMS[number % len(VICTIMS)]
            number += 1
            if (pid := self._pids().get(name)) is not None:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
                    self.ledger.killed.append(name)

    def _look(self) -> None:
        while not self._over.wait(LOOK_SECONDS):
            for name, pid in self._pids().items():
                with suppress(psutil.Error):
                    self.ledger.memory_mb[name].append(rss_mb(pid))

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
        found = _audit(directory, soak.ledger)
    print(render(list(_rows(soak.ledger, found, options.minutes))))
    if soak.ledger.first_error:
        print(f"the first error a client saw: {soak.ledger.first_error[:300]}")
    if not options.keep:
        subprocess.run(["rm", "-rf", str(directory)], check=False)


def start(stack: ExitStack, directory: Path, port: int, config: str = CONFIG) -> None:
    """Start a server with a model beside it; both end with the stack."""
    provider = subprocess.Popen(
        [sys.executable, "-m", "bench.provider"],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    stack.callback(provider.kill)
    at = f"http://127.0.0.1:{provider.stdout.readline().strip()}/v1"
    (directory / "coulisse.yaml").write_text(config.format(port=port, provider=at))
    log = stack.enter_context((directory / "log").open("wb"))
    server = subprocess.Popen(
        [sys.executable, str(ROOT / "manage.py"), "start", "-F"],
        cwd=directory,
        env=_environment(directory),
        stdout=log,
        stderr=log,
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


def _audit(directory: Path, ledger: SoakLog) -> dict[str, float]:
    told = {
        "chats": ledger.chats,
        "tasks": ledger.tasks,
        "drain_seconds": DRAIN_SECONDS,
    }
    audit = subprocess.run(
        [sys.executable, "-P", "-m", "bench.scenarios.soak_audit"],
        input=json.dumps(told),
        env=_environment(directory),
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    found: dict[str, float] = json.loads(audit.stdout)
    return found


def _rows(ledger: SoakLog, found: dict[str, float], minutes: float) -> list[Row]:
    answered = sum(ledger.chats.values())
    killed = ", ".join(f"{name} {ledger.killed.count(name)}" for name in VICTIMS)
    rows = [
        Row("minutes", minutes, digits=1, note=f"killed: {killed}"),
        Row("chats sent", len(ledger.chats), note=f"{answered} answered"),
        Row("answered chats that are not stored", found["chats_lost"], "", 0),
        Row("chats stored twice", found["chats_twice"], "", 0),
        Row("tasks accepted", sum(map(bool, ledger.tasks.values()))),
        Row(
            "tasks not accepted",
            sum(not given for given in ledger.tasks.values()),
            "",
            0,
        ),
        Row("tasks not done", found["tasks_not_done"], "", 0),
        Row("tasks whose turn is not stored once", found["tasks_not_once"], "", 0),
        Row("ticks of the cron", found["ticks"]),
        Row("ticks that were missed", found["ticks_missed"], "", 0),
        Row("ticks not done", found["ticks_not_done"], "", 0),
        Row("replies judged", found["judged"]),
        Row("replies without their score", found["unjudged"], "", 0),
        Row("tasks errored, of all kinds", found["errored"], "", 0),
        Row("starts of the sidecar", found["sidecar_starts"]),
        Row("work left in the queue", found["open"], "", 0),
    ]
    for name, sizes in sorted(ledger.memory_mb.items()):
        third = max(1, len(sizes) // 3)
        first, last = (
            statistics.median(part) for part in (sizes[:third], sizes[-third:])
        )
        note = f"{first:.0f} MB in the first third, most {max(sizes):.0f}"
        rows.append(Row(f"memory of {name}, last third", last, "MB", note=note))
    return rows
