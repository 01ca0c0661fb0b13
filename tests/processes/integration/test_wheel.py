"""The wheel runs the command and all processes away from the clone."""

import json
import os
import subprocess
import sys
import sysconfig
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from django.conf import settings

from core.version import VERSION
from processes.server import listening_socket
from testing.scripted_provider import FakeProvider
from tests.processes.conftest import TIMEOUT_SECONDS

YAML = """
server: {{bind: 127.0.0.1, port: {port}}}
users: shared
providers:
  openai: {{api_key: k, base_url: "{url}"}}
agents:
  - {{name: assistant, provider: openai, model: gpt-test}}
"""
PIP = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
ENVIRONMENT = {
    name: value
    for name, value in os.environ.items()
    if not name.startswith(("COULISSE_", "DJANGO_", "PYTHON"))
    and name not in ("DATABASE_URL", "REDIS_URL")
} | {"PIP_NO_INDEX": "1"}


def run(*words: object, cwd: Path) -> str:
    done = subprocess.run(
        [*map(str, words)],
        cwd=cwd,
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_SECONDS,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A virtual environment with the wheel, and the packages of this one."""
    root = tmp_path_factory.mktemp("wheel")
    build = ("wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", root)
    run(*PIP, *build, settings.BASE_DIR, cwd=root)
    run(sys.executable, "-m", "venv", "--without-pip", root / "venv", cwd=root)
    python = root / "venv/bin/python"
    (wheel,) = root.glob("*.whl")
    run(*PIP, "--python", python, "install", "--no-deps", wheel, cwd=root)
    code = "import sysconfig; print(sysconfig.get_path('purelib'))"
    packages = Path(run(python, "-c", code, cwd=root).strip())
    (packages / "dependencies.pth").write_text(sysconfig.get_path("purelib"))
    return root / "venv"


@pytest.fixture
def project(tmp_path: Path, fake: FakeProvider) -> Path:
    """A directory with a YAML, and with folders that have the names of our apps."""
    root = tmp_path / "my project"
    for name in ("config", "core", "coulisse"):
        (root / name).mkdir(parents=True)
        (root / name / "__init__.py").write_text("raise AssertionError")
    port = listening_socket.find_free_port()
    (root / "coulisse.yaml").write_text(YAML.format(port=port, url=fake.base_url))
    return root


@pytest.fixture
def started(environment: Path, project: Path) -> Iterator[str]:
    """The output of `status` while a server runs."""
    run(environment / "bin/coulisse", "start", cwd=project)
    try:
        yield run(environment / "bin/coulisse", "status", cwd=project)
    finally:
        run(environment / "bin/coulisse", "stop", "--force", cwd=project)


def ask(url: str) -> str:
    body = {"model": "assistant", "messages": [{"role": "user", "content": "Hi"}]}
    request = urllib.request.Request(
        f"{url}/chat/completions",
        json.dumps(body).encode(),
        {"content-type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=TIMEOUT_SECONDS) as response:
        return json.load(response)["choices"][0]["message"]["content"]


def test_commands_run_from_the_wheel(environment: Path, project: Path) -> None:
    command = environment / "bin/coulisse"
    assert run(command, "--version", cwd=project) == f"coulisse {VERSION}\n"
    assert run(command, "check", cwd=project).startswith("ok — coulisse.yaml (1 agents")
    assert f"coulisse {VERSION} in {environment}" in run(command, "update", cwd=project)
    assert run(command, "init", "--from-example", "-c", "tour.yaml", cwd=project)


def test_server_runs_from_the_wheel(
    started: str, environment: Path, project: Path, fake: FakeProvider
) -> None:
    lines = {line.split()[0]: line for line in started.splitlines()[1:]}
    assert lines["config:"].endswith("./coulisse.yaml")
    for name in ("web-1", "worker", "beat"):
        assert "0 restarts" in lines[name], started
    fake.reply("Hello", "!")
    url = lines["url:"].split()[1]
    assert ask(url) == "Hello!"
    studio = url.replace("/v1", "/admin/static/studio/studio.js")
    with urllib.request.urlopen(studio, timeout=TIMEOUT_SECONDS) as response:
        assert response.status == 200
    assert (project / ".coulisse/coulisse-memory.db").exists()
    assert run(environment / "bin/coulisse", "turns", cwd=project)
