"""The services of docker-compose.yml as processes of this machine, without Docker.

Each container is a directory with its own YAML and state directory, as on a machine of
its own. PostgreSQL and Redis are those of the test; the proxy is haproxy with the
configuration of the repository, whose addresses are replaced.
"""

import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from django.conf import settings
from ruamel.yaml import YAML

from processes.server import listening_socket
from tests.processes.conftest import MANAGE, TIMEOUT_SECONDS

COMPOSE: dict[str, Any] = YAML(typ="safe", pure=True).load(
    settings.BASE_DIR / "docker-compose.yml"
)
HAPROXY = settings.BASE_DIR / "deploy/haproxy/haproxy.cfg"
CONFIG = """
server: {{bind: 127.0.0.1, port: {port}, drain_seconds: 20, lame_duck_seconds: 3}}
providers: {{openai: {{api_key: k, base_url: "{provider}"}}}}
agents: [{{name: assistant, provider: openai, model: gpt-test}}]
tasks: {{}}
"""


class Container:
    """A process with the command and environment of a service."""

    def __init__(self, root: Path, service: str, given: dict[str, str], fake: str):
        self.service = COMPOSE["services"][service]
        self.root = root
        self.port = listening_socket.find_free_port()
        (root / "state").mkdir(parents=True)
        (root / "coulisse.yaml").write_text(
            CONFIG.format(port=self.port, provider=fake)
        )
        self.environment = self._environment(given)
        self.output = root / "output.log"
        self.process: subprocess.Popen[bytes] | None = None

    def _environment(self, given: dict[str, str]) -> dict[str, str]:
        """Return the service's environment with the addresses of the test."""
        named = {
            name: given.get(name) or interpolate(str(value), given)
            for name, value in self.service["environment"].items()
            if value is not None
        }
        kept = {name: os.environ[name] for name in ("HOME", "PATH")}
        return {**kept, **named, "COULISSE_STATE_DIR": str(self.root / "state")}

    def command(self) -> list[str]:
        words = shlex.split(self.service.get("command", image_command()))
        assert words[0] == "coulisse"
        return [sys.executable, MANAGE, *words[1:]]

    def start(self) -> None:
        with self.output.open("ab") as output:
            self.process = subprocess.Popen(
                self.command(),
                cwd=self.root,
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )

    def run(self) -> None:
        """Run a job to its end."""
        self.start()
        assert self.process is not None
        code = self.process.wait(TIMEOUT_SECONDS)
        assert code == 0, self.output.read_text()

    def end(self, number: signal.Signals = signal.SIGTERM) -> None:
        """Send a signal; SIGKILL reaches all processes of the container."""
        if self.process is None or self.process.poll() is not None:
            return
        if number == signal.SIGKILL:
            os.killpg(self.process.pid, number)
        else:
            self.process.send_signal(number)
        self.process.wait(TIMEOUT_SECONDS)


def image_command() -> str:
    """Return the command of the image."""
    text = (settings.BASE_DIR / "Dockerfile").read_text()
    (words,) = re.findall(r"(?m)^CMD \[(.+)\]$", text)
    return " ".join(re.findall(r'"([^"]+)"', words))


def interpolate(text: str, given: dict[str, str]) -> str:
    """Replace `${NAME:?…}`; a missing variable is an error, as with Docker."""
    return re.sub(r"\$\{(\w+)(?::\?[^}]*)?\}", lambda match: given[match[1]], text)


@contextmanager
def proxy(root: Path, program: str, ports: list[int]) -> Iterator[int]:
    """Run haproxy with the repository's configuration; yield its port."""
    port = listening_socket.find_free_port()
    (template,) = re.findall(r"(?m)^  server-template .*$", HAPROXY.read_text())
    servers = "\n".join(
        f"  server web-{number} 127.0.0.1:{each}" for number, each in enumerate(ports)
    )
    text = HAPROXY.read_text().replace(template, servers)
    file = root / "haproxy.cfg"
    file.write_text(text.replace("bind :8421", f"bind 127.0.0.1:{port}"))
    with (root / "haproxy.log").open("wb") as log:
        process = subprocess.Popen([program, "-f", file], stdout=log, stderr=log)
    try:
        yield port
    finally:
        process.terminate()
        process.wait(TIMEOUT_SECONDS)
