"""Output of processes on stderr, as JSON and as text."""

import json
import os
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest
from django.conf import settings

from testing.scripted_provider import FakeProvider
from tests.processes.conftest import MANAGE, TIMEOUT_SECONDS, Project, end, until

YAML = """
server: {{bind: 127.0.0.1, port: {port}, worker_threads: 1}}
users: shared
providers:
  openai: {{api_key: sk-of-this-test-alone, base_url: "{url}", retries: 0}}
agents:
  - {{name: assistant, provider: openai, model: gpt-test}}
"""


def ask(project: Project, name: str) -> None:
    question = {"model": "assistant", "messages": [{"role": "user", "content": "hi"}]}
    request = urllib.request.Request(
        f"{project.url}/v1/chat/completions?safety_identifier=ada",
        json.dumps(question).encode(),
        {"content-type": "application/json", "X-Request-Id": name},
    )
    with urllib.request.urlopen(request, timeout=TIMEOUT_SECONDS) as response:
        assert response.headers["X-Request-Id"] == name


def test_every_process_writes_json(project: Project, fake: FakeProvider) -> None:
    project.environment |= {
        "DJANGO_SETTINGS_MODULE": "coulisse_site.settings",
        "COULISSE_LOG_FORMAT": "json",
        "COULISSE_LOG_LEVEL": "DEBUG",
        "COULISSE_PROCESSES": "web,worker,beat",
    }
    project.config.write_text(YAML.format(port=project.port, url=fake.base_url))
    process = project.attach()
    until(lambda: process.poll() is not None or project.is_serving(process.pid))
    ask(project, "checkout-7")
    until(lambda: {"web-1", "worker", "beat"} <= _pids(project).keys())
    pids = _pids(project)
    os.kill(pids["beat"], signal.SIGKILL)
    until(lambda: _pids(project).get("beat") != pids["beat"])
    output = end(process)
    lines = _read(output)
    turn = next(line for line in lines if "outcome" in line)
    assert turn["request_id"] == "checkout-7"
    assert (turn["process"], turn["logger"]) == ("web-1", "telemetry.log_output.logs")
    assert turn["pid"] == pids["web-1"]
    access = next(line for line in lines if line.get("path", "").startswith("/v1/chat"))
    assert access["path"] == "/v1/chat/completions?…"
    assert (access["status"], access["request_id"]) == (200, "checkout-7")
    ended = next(line for line in lines if "SIGKILL" in line["message"])
    assert ended["process"] == "supervisor"
    assert "sk-of-this-test-alone" not in output


def _pids(project: Project) -> dict[str, int]:
    return {c.name: c.pid for c in project.run_record.children if c.pid is not None}


def _read(output: str) -> list[dict]:
    """Return the JSON lines; the other lines are the banner's."""
    lines = output.splitlines()
    parsed = [json.loads(line) for line in lines if line.startswith("{")]
    rest = [line for line in lines if not line.startswith("{")]
    assert not [line for line in rest if "Traceback" in line or " INFO " in line]
    return parsed


FAILING_SCRIPT = """
import logging, sys, threading, warnings
import django
from core.text import redaction
from telemetry.log_output import logs

django.setup()
logs.capture_python_output()
redaction.register_secrets(["q7Vd2mXw9Lr4TzK8bNf3HcYs"])
warnings.warn("mind q7Vd2mXw9Lr4TzK8bNf3HcYs")

def fail():
    raise ValueError("of a thread: q7Vd2mXw9Lr4TzK8bNf3HcYs")

thread = threading.Thread(target=fail)
thread.start()
thread.join()
raise ValueError("of all: q7Vd2mXw9Lr4TzK8bNf3HcYs")
"""


def run(tmp_path: Path, *words: str, **environment: str) -> subprocess.CompletedProcess:
    # An open pipe means that the supervisor lives.
    read_end, write_end = os.pipe()
    with os.fdopen(read_end, "rb") as stdin, os.fdopen(write_end, "wb"):
        return subprocess.run(
            [sys.executable, *words],
            cwd=settings.BASE_DIR,
            env={
                **os.environ,
                "COULISSE_CONFIG": str(tmp_path / "coulisse.yaml"),
                "DJANGO_SETTINGS_MODULE": "coulisse_site.settings",
                **environment,
            },
            stdin=stdin,
            capture_output=True,
            text=True,
            timeout=TIMEOUT_SECONDS,
        )


def test_unexpected_output_is_json_without_secrets(tmp_path: Path) -> None:
    completed = run(
        tmp_path, "-W", "always", "-c", FAILING_SCRIPT, COULISSE_LOG_FORMAT="json"
    )
    assert completed.returncode == 1
    records = [json.loads(line) for line in completed.stderr.splitlines()]
    warned, thread, ended = records[-3:]
    assert "mind [redacted]" in warned["message"]
    assert thread["exception"].endswith("ValueError: of a thread: [redacted]")
    assert ended["level"] == "CRITICAL"
    assert ended["exception"].endswith("ValueError: of all: [redacted]")
    assert "q7Vd2mXw9Lr4TzK8bNf3HcYs" not in completed.stderr


FAILING_COMMANDS = [
    (MANAGE, "shell", "-v0", "-c", "raise ValueError('no')"),
    ("-m", "processes.web", "--fd", "987", "--parent-pipe", "0"),
]


@pytest.mark.parametrize("words", FAILING_COMMANDS)
def test_fatal_exception_is_logged_as_json(
    tmp_path: Path, words: tuple[str, ...]
) -> None:
    completed = run(
        tmp_path, *words, COULISSE_LOG_FORMAT="json", COULISSE_PROCESS="web-9"
    )
    assert completed.returncode == 1
    *_, record = [json.loads(line) for line in completed.stderr.splitlines()]
    assert (record["level"], record["process"]) == ("CRITICAL", "web-9")
    assert "Traceback" in record["exception"]


def test_unknown_log_format_is_refused(tmp_path: Path) -> None:
    completed = run(tmp_path, MANAGE, "status", COULISSE_LOG_FORMAT="xml")
    assert completed.returncode == 1
    assert completed.stderr == "COULISSE_LOG_FORMAT must be text or json, not 'xml'\n"
