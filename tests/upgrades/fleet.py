"""Servers of different versions on one database, and what their users do."""

import json
import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

from django.conf import settings

from tests.processes.conftest import MANAGE, Project, end

LAST_RELEASE = (Path(__file__).parent / "last_release.txt").read_text().strip()
YAML = """
server: {{bind: 127.0.0.1, port: {port}}}
providers:
  openai: {{api_key: k, base_url: "{provider}"}}
agents:
  - {{name: assistant, provider: openai, model: gpt-test}}
memory:
  user_state:
    embed_with: {{provider: hash}}
tasks: {{}}
"""
KEYS = {
    "COULISSE_USER_NAMESPACE": "6f4a54e1-8c1e-4b43-a9f5-4d3cf8f0a001",
    "COULISSE_VAULT_KEY": "dmF1bHQta2V5LW9mLXRlc3RzLTMyLWJ5dGVzLWxvbmc=",
    "COULISSE_HMAC_KEY": "aG1hYy1rZXktb2YtdGVzdHMtMzItYnl0ZXMtLWxvbmc=",
}
TIMEOUT_SECONDS = 60


def has_last_release() -> bool:
    """Return whether git has the commit of the last release."""
    command = ["git", "-C", settings.BASE_DIR, "cat-file", "-e", LAST_RELEASE]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


def extract_last_release(directory: Path) -> Path:
    """Write the code of the last release to a directory."""
    archive = subprocess.run(
        ["git", "-C", settings.BASE_DIR, "archive", LAST_RELEASE],
        check=True,
        capture_output=True,
    ).stdout
    directory.mkdir()
    subprocess.run(["tar", "-x", "-C", directory], input=archive, check=True)
    return directory


class Server(Project):
    """A server of one version, with a state directory of its own."""

    def __init__(self, root: Path, provider: str, code: Path | None = None) -> None:
        root.mkdir()
        super().__init__(root, str(code / "manage.py") if code else MANAGE)
        self.config.write_text(YAML.format(port=self.port, provider=provider))
        self.environment |= KEYS
        self.environment["DJANGO_SETTINGS_MODULE"] = "coulisse_site.settings"

    @contextmanager
    def serving(self, processes: str = "web", **environment: str) -> Iterator[None]:
        """Run the server until the end of the block."""
        self.environment |= {"COULISSE_PROCESSES": processes, **environment}
        process = self.serve()
        try:
            yield
        finally:
            end(process)

    def upgrade(self) -> None:
        """Migrate its database with this version's code."""
        other, self.manage = self.manage, MANAGE
        migrated = self.run("migrate", "-v0")
        self.manage = other
        assert migrated.returncode == 0, migrated.stderr

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        """Send a request, and return its JSON; fails unless it succeeds."""
        status, text = self.send(method, path, body)
        assert status < 300, f"{method} {path}: {status} {text}"
        return json.loads(text) if text else None

    def send(self, method: str, path: str, body: Any = None) -> tuple[int, str]:
        connection = HTTPConnection("127.0.0.1", self.port, timeout=TIMEOUT_SECONDS)
        headers = {"Content-Type": "application/json", "Accept": "application/json"}
        try:
            content = None if body is None else json.dumps(body)
            connection.request(method, path, content, headers)
            response = connection.getresponse()
            return response.status, response.read().decode()
        finally:
            connection.close()

    def chat(self, user: str, text: str = "Hello") -> str:
        message = {"role": "user", "content": text}
        body = {"model": "assistant", "messages": [message], "user": user}
        reply = self.ask("POST", "/v1/chat/completions", body)
        return str(reply["choices"][0]["message"]["content"])

    def add_task(self, user: str) -> str:
        body = {"agent": "assistant", "prompt": "Go.", "user": user}
        return str(self.ask("POST", "/v1/tasks", body)["id"])

    def wait_for_task(self, task: str, user: str) -> None:
        deadline = time.monotonic() + TIMEOUT_SECONDS
        while True:
            found = self.ask("GET", f"/v1/tasks/{task}?safety_identifier={user}")
            if found["finished_at"]:
                assert found["state"] == "done", found
                return
            assert time.monotonic() < deadline, found
            time.sleep(0.1)

    def edit_agent(self, purpose: str) -> None:
        agent = {"name": "assistant", "provider": "openai", "model": "gpt-test"}
        self.ask("PUT", "/admin/agents/assistant", {**agent, "purpose": purpose})

    def knows_purpose(self, purpose: str) -> bool:
        return purpose in self.send("GET", "/admin/agents/assistant")[1]

    def failing_pages(self) -> list[str]:
        """Return the pages of the studio that answer with an error of the server."""
        document = self.ask("GET", "/admin/openapi.json")
        paths = [
            path
            for path, methods in document["paths"].items()
            if "get" in methods and "{" not in path
        ]
        assert len(paths) > 20
        answers = {path: self.send("GET", path) for path in paths}
        return [
            f"{path}: {status} {text[:300]}"
            for path, (status, text) in answers.items()
            if status >= 500
        ]


def postgresql_url() -> str:
    """Return the database of the tests; "" on SQLite."""
    return os.environ.get("DATABASE_URL", "")
