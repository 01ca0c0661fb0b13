"""The Dockerfile's command, with its environment, in a directory in place of `/app`.

The directory has the files that the documented mounts bring; no test needs Docker.
"""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from django.conf import settings

from processes.server import listening_socket
from testing.scripted_provider import FakeProvider
from tests.processes.conftest import TIMEOUT_SECONDS, end, until

DOCKERFILE = (settings.BASE_DIR / "Dockerfile").read_text().replace("\\\n", " ")
YAML = """
server: {{bind: 127.0.0.1, port: {port}}}
users: shared
providers: {{openai: {{api_key: k, base_url: "{url}"}}}}
agents: [{{name: assistant, provider: openai, model: gpt-test}}]
"""


def instructions(name: str) -> list[str]:
    return re.findall(rf"(?m)^{name} (.+)$", DOCKERFILE)


@dataclass
class Container:
    """The image's file system below a directory, with `coulisse.yaml` mounted."""

    root: Path
    port: int = field(default_factory=listening_socket.find_free_port)

    @property
    def app(self) -> Path:
        return self.root / "app"

    def create(self, yaml: str) -> None:
        commands = self.root / "usr/local/bin"
        for folder in (self.app, commands, self.root / "tmp"):
            folder.mkdir(parents=True)
        (self.root / "tmp").chmod(0o1777)
        (self.app / "manage.py").symlink_to(settings.BASE_DIR / "manage.py")
        (self.app / "deploy").symlink_to(settings.BASE_DIR / "deploy")
        for target, link in re.findall(r"ln -s (\S+) (\S+)", DOCKERFILE):
            script = self.root / target.lstrip("/")
            linked = self.root / link.lstrip("/")
            linked.write_text(self.mapped(script.read_text()))
            linked.chmod(0o755)
        # A link would not find its packages.
        self.add_command("python", f'exec {sys.executable} "$@"')
        config = self.app / "coulisse.yaml"
        config.write_text(yaml)
        config.chmod(0o444)

    def add_command(self, name: str, script: str) -> None:
        path = self.root / "usr/local/bin" / name
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)

    def mapped(self, text: str) -> str:
        """Return a text with the image's paths below the directory."""
        return re.sub(r"(?<![\w.])/(app|tmp|home)\b", rf"{self.root}/\1", text)

    @property
    def environment(self) -> dict[str, str]:
        given = shlex.split(self.mapped(" ".join(instructions("ENV"))))
        path = f"{self.root}/usr/local/bin:{os.environ['PATH']}"
        own = {"DJANGO_SETTINGS_MODULE": "coulisse_site.settings", "PATH": path}
        return dict(entry.split("=", 1) for entry in given) | own

    def command(self) -> list[str]:
        """Return the command: `ENTRYPOINT`, if there is one, and `CMD`."""
        lines = instructions("ENTRYPOINT") + instructions("CMD")
        return [word for line in lines for word in json.loads(line)]

    def start(self) -> subprocess.Popen[str]:
        [directory] = instructions("WORKDIR")
        return subprocess.Popen(
            self.command(),
            cwd=self.mapped(directory),
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )


@pytest.fixture
def container(fake: FakeProvider) -> Iterator[Container]:
    # pytest's own directories are closed to other users.
    root = Path(tempfile.mkdtemp(prefix="coulisse-image-"))
    root.chmod(0o755)
    container = Container(root)
    container.create(YAML.format(port=container.port, url=fake.base_url))
    yield container
    shutil.rmtree(root)


def test_documented_mounts_are_those_of_the_image() -> None:
    documented = (settings.BASE_DIR / "docs/running.md").read_text()
    for mount in (
        "$(pwd)/.coulisse:/app/.coulisse",
        "$(pwd)/coulisse.yaml:/app/coulisse.yaml:ro",
    ):
        assert mount in documented
    assert instructions("WORKDIR") == ["/app"]
    assert instructions("VOLUME") == ["/app/.coulisse"]
    assert "8421" in instructions("EXPOSE")


def test_image_serves_a_read_only_file_and_keeps_its_state(
    container: Container, fake: FakeProvider
) -> None:
    fake.reply("Hello from the image.")
    # Other users may lack access to Python on the machine of the test.
    container.add_command("setpriv", 'shift 3; exec "$@"')
    process = container.start()
    try:
        answered = json.loads(ask(container, process))
        assert answered["choices"][0]["message"]["content"] == "Hello from the image."
        state = container.app / ".coulisse"
        assert (state / "coulisse-memory.db").exists()
        assert (state / "secrets.env").exists()
        # Nothing else is written where the image has its code.
        names = {"manage.py", "deploy", "coulisse.yaml", ".coulisse"}
        assert {path.name for path in container.app.iterdir()} == names
    finally:
        end(process)


@pytest.mark.skipif(os.getuid() != 0, reason="only root can become another user")
@pytest.mark.parametrize(
    ("state_owner", "file_owner", "expected"),
    [(None, 0, 1000), (None, 1234, 1234), (0, 1234, 1234), (77, 1234, 77)],
)
def test_command_runs_as_the_owner_of_the_state(
    container: Container, state_owner: int | None, file_owner: int, expected: int
) -> None:
    state, config = container.app / ".coulisse", container.app / "coulisse.yaml"
    os.chown(config, file_owner, file_owner)
    if state_owner is not None:
        state.mkdir()
        os.chown(state, state_owner, state_owner)
    container.add_command("python", 'id -u; shift; echo "$@"')
    output = container.start().communicate(timeout=TIMEOUT_SECONDS)[0]
    assert output.split() == [str(expected), "start", "--foreground"]
    assert state.stat().st_uid == expected


def ask(container: Container, process: subprocess.Popen[str]) -> bytes:
    """Return the reply to a chat, once the server answers."""
    address = f"http://127.0.0.1:{container.port}"
    until(lambda: process.poll() is not None or is_ready(address))
    assert process.poll() is None, process.communicate()[0]
    question = {"model": "assistant", "messages": [{"role": "user", "content": "hi"}]}
    request = urllib.request.Request(
        f"{address}/v1/chat/completions",
        json.dumps(question).encode(),
        {"content-type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=TIMEOUT_SECONDS) as response:
        body: bytes = response.read()
    return body


def is_ready(address: str) -> bool:
    try:
        with urllib.request.urlopen(f"{address}/health/ready", timeout=5) as response:
            return bool(response.status == 200)
    except OSError:
        return False
