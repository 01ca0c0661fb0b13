"""A project on disk, and its commands in processes of their own."""

import os
import signal
import subprocess
import sys
import time
import urllib.request
import uuid
from collections.abc import Callable, Iterator
from contextlib import suppress
from io import StringIO
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import psutil
import psycopg
import pytest
from django.conf import settings
from django.core.management import call_command

from config.loading import secrets_file
from processes.server import listening_socket
from processes.supervision import run_state
from processes.supervision.run_state import RunRecord
from processes.supervision.state_directory import StateDir

MANAGE = str(settings.BASE_DIR / "manage.py")
MANAGE_WITHOUT_VALKEY = str(
    settings.BASE_DIR / "tests/processes/support/manage_without_valkey.py"
)
"""The same commands without Valkey."""
QUICK_MANAGE = str(settings.BASE_DIR / "tests/processes/support/quick_manage.py")
"""The same commands with shorter timeouts."""
YAML = """
server: {{bind: 127.0.0.1, port: {port}{extra}}}
default_user_id: main
providers:
  openai: {{base_url: "http://127.0.0.1:9/v1"}}
agents:
  - {{name: assistant, provider: openai, model: gpt-test}}
  - {{name: pm, provider: openai, model: gpt-other}}
"""


TIMEOUT_SECONDS = 60
"""Time limit of steps that are immediate on an idle machine."""


def until(condition: Callable[[], object], seconds: float = TIMEOUT_SECONDS) -> None:
    """Wait for a condition; fail after the time limit."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "the condition did not become true in time"
        time.sleep(0.02)


class Project:
    """A YAML, its state directory, and commands that use it."""

    def __init__(self, root: Path, manage: str = MANAGE) -> None:
        self.root = root
        self.manage = manage
        """The program of its commands."""
        self.port = listening_socket.find_free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.state = StateDir(root / ".coulisse")
        self.config = root / "coulisse.yaml"
        self.attached: list[subprocess.Popen[str]] = []
        self.environment = {
            name: value
            for name, value in os.environ.items()
            if name not in ("DATABASE_URL", "REDIS_URL")
        }
        # With PostgreSQL, no process creates them.
        self.environment |= dict.fromkeys(secrets_file.KEYS, "k" * 43 + "=")
        self.environment["COULISSE_PROCESSES"] = "web"
        self.environment["DJANGO_SETTINGS_MODULE"] = (
            "tests.processes.support.small_settings"
        )
        self.write()

    def write(self, extra: str = "") -> None:
        self.config.write_text(YAML.format(port=self.port, extra=extra))

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, self.manage, *words],
            cwd=self.root,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=TIMEOUT_SECONDS,
        )

    def call(self, command: str, **options: object) -> str:
        """Run a command in this process, for speed; return its output."""
        output = StringIO()
        call_command(command, **options, stdout=output)
        return output.getvalue()

    def attach(self, manage: str = "") -> subprocess.Popen[str]:
        """Run `start --foreground` without waiting until it serves."""
        process = subprocess.Popen(
            [sys.executable, manage or self.manage, "start", "-F"],
            cwd=self.root,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self.attached.append(process)
        return process

    def serve(self, manage: str = "") -> subprocess.Popen[str]:
        """Run `start --foreground` and return once it serves."""
        process = self.attach(manage)
        until(
            lambda: process.poll() is not None or self.is_serving(process.pid),
        )
        assert process.poll() is None, process.communicate()[0]
        return process

    def is_serving(self, pid: int) -> bool:
        run = run_state.read_record(self.state.record)
        return run is not None and run.pid == pid and run.is_serving

    @property
    def run_record(self) -> RunRecord:
        run = run_state.read_record(self.state.record)
        assert run is not None
        return run

    def get(self, path: str) -> str:
        with urllib.request.urlopen(
            f"{self.url}{path}", timeout=TIMEOUT_SECONDS
        ) as response:
            return response.read().decode()

    def processes(self) -> list[psutil.Process]:
        """Return the running processes of this project."""
        return [
            process
            for process in psutil.process_iter()
            if _environment(process).get("COULISSE_CONFIG") == str(self.config)
            or (
                process.pid in {attached.pid for attached in self.attached}
                and is_alive(process)
            )
        ]

    def clean(self) -> None:
        for process in self.attached:
            process.kill()
            process.communicate()
        for process in self.processes():
            with suppress(psutil.NoSuchProcess):
                process.kill()


@pytest.fixture
def project(tmp_path: Path, settings, monkeypatch) -> Iterator[Project]:
    """A project in the current directory, whose name has a space."""
    root = tmp_path / "my project"
    root.mkdir()
    monkeypatch.chdir(root)
    project = Project(root)
    settings.COULISSE_CONFIG = project.config
    settings.COULISSE_STATE_DIR = project.state.root
    yield project
    project.clean()


def end(process: subprocess.Popen[str], number: int = signal.SIGTERM) -> str:
    """Send a signal, wait for the end and return the whole output."""
    process.send_signal(number)
    return process.communicate(timeout=TIMEOUT_SECONDS)[0]


def is_alive(process: psutil.Process) -> bool:
    """Return whether a process runs; a zombie does not."""
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def _environment(process: psutil.Process) -> dict[str, str]:
    try:
        return process.environ()
    except (psutil.Error, OSError):
        return {}


@pytest.fixture
def database_url() -> Iterator[str]:
    """A new database on the PostgreSQL of the tests; empty for SQLite."""
    url = os.environ.get("DATABASE_URL", "")
    if not url:
        yield ""
        return
    name = f"processes_{uuid.uuid4().hex[:8]}"
    with psycopg.connect(url, autocommit=True) as server:
        server.execute(f"CREATE DATABASE {name}")
        yield urlunsplit(urlsplit(url)._replace(path=f"/{name}"))
        server.execute(f"DROP DATABASE {name} WITH (FORCE)")
