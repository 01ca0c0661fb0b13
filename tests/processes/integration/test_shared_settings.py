"""Edits in the studio of one server are in force on another, with its own file."""

import json
import shutil
import urllib.error
import urllib.request
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.db import connection

from config.loading import secrets_file
from testing.scripted_provider import FakeProvider
from testing.wires import ScriptedAnswer
from tests.processes.conftest import Project, end, until

pytestmark = [
    pytest.mark.database,
    pytest.mark.skipif(
        connection.vendor == "sqlite", reason="one machine, which edits its file"
    ),
]

YAML = """
server: {{bind: 127.0.0.1, port: {port}}}
users: shared
providers:
  openai: {{api_key: "${{TEST_PROVIDER_KEY}}", base_url: "http://127.0.0.1:9/v1"}}
agents:
  - {{name: assistant, provider: openai, model: gpt-test}}
"""
LOGIN = 'proxy: {basic: {username: app, password: "${TEST_PROVIDER_KEY}"}}'
LOGIN_OF_FIRST = LOGIN.replace("TEST_PROVIDER_KEY", "TEST_LOGIN")
PROVIDER = 'api_key: "${{TEST_PROVIDER_KEY}}"\nbase_url: {url}'
THREAD = {"thread_id": "one"}
KEY = "sk-shared-V7dK2mXw9Lr4TzQ8"
JSON = {"Content-Type": "application/json", "Accept": "application/json"}
YAML_TEXT = {"Accept": "application/yaml"}
TEXT = {"Content-Type": "application/yaml", "Accept": "application/json"}


@pytest.fixture
def servers(
    project: Project, database_url: str, tmp_path: Path
) -> Iterator[list[Project]]:
    """Two servers with directories and files of their own, and one database."""
    secrets_file.create_file(
        project.state.root / "secrets.env", user_namespace=uuid.uuid4()
    )
    shutil.copytree(project.root, tmp_path / "other")
    other = Project(tmp_path / "other")
    both = [project, other]
    for each in both:
        each.environment.pop("COULISSE_STUDIO_EDITS", None)
        each.environment |= {
            "DJANGO_SETTINGS_MODULE": "coulisse_site.settings",
            "DATABASE_URL": database_url,
            "TEST_PROVIDER_KEY": KEY,
        }
        each.config.write_text(YAML.format(port=each.port))
    project.environment["TEST_LOGIN"] = KEY
    assert project.run("migrate", "-v", "0").returncode == 0
    for each in both:
        each.serve()
    yield both
    for each in both:
        each.clean()  # Before the database is dropped.
        each.attached.clear()


def send(
    server: Project, method: str, path: str, body: str = "", headers: Any = TEXT
) -> tuple[int, str, str]:
    """Send a request; return the status, the text and the version."""
    data = body.encode() if body else None
    request = urllib.request.Request(
        f"{server.url}{path}", data, headers, method=method
    )
    try:
        with urllib.request.urlopen(request, timeout=60) as response:
            return response.status, response.read().decode(), response.headers["ETag"]
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode(), ""


def status(server: Project, path: str) -> int:
    return send(server, "GET", path)[0]


def chat(server: Project) -> int:
    messages = [{"role": "user", "content": "hi"}]
    question = {"model": "assistant", "messages": messages, "metadata": THREAD}
    body = json.dumps(question)
    return send(server, "POST", "/v1/chat/completions", body, JSON)[0]


def prompt_length(server: Project, fake: FakeProvider) -> int:
    """Return how many messages of the thread the model receives."""
    assert chat(server) == 200
    return len(fake.requests[-1].body["messages"])


def test_edits_reach_the_other_server_and_its_restart(
    servers: list[Project], fake: FakeProvider
) -> None:
    first, second = servers
    files = [each.config.read_bytes() for each in servers]
    # Providers.
    assert chat(second) == 502
    provider = PROVIDER.format(url=fake.base_url)
    assert send(first, "PUT", "/admin/providers/openai", provider)[0] == 200
    fake.default = ScriptedAnswer(("ok",))
    until(lambda: chat(second) == 200)
    assert fake.requests[-1].headers["authorization"] == f"Bearer {KEY}"
    # MCP servers.
    assert status(second, "/admin/mcp/web/tools") == 404
    web = json.dumps({"name": "web", "url": "http://127.0.0.1:9/mcp", "oauth": False})
    assert send(first, "POST", "/admin/mcp", web, JSON)[0] == 201
    until(lambda: status(second, "/admin/mcp/web/tools") == 200)
    # Memory.
    assert [prompt_length(second, fake) for _ in range(2)] == [3, 5]
    assert send(first, "PUT", "/admin/memory", "recency_limit: 1")[0] == 200
    until(lambda: prompt_length(second, fake) < 4)
    # Limits.
    limit = "- {per: principal, requests_per_minute: 1}"
    assert send(first, "PUT", "/admin/settings/limits", limit)[0] == 200
    until(lambda: status(second, "/v1/memories") == 429)
    # An edit of what another has changed since is refused.
    _, _, version = send(second, "GET", "/admin/settings/limits")
    assert send(second, "DELETE", "/admin/settings/limits")[0] == 200
    stale = send(first, "PUT", "/admin/memory", "{}", {**TEXT, "If-Match": version})
    assert stale[0] == 409
    until(lambda: status(first, "/v1/memories") == 200)
    # Authentication, and its reset at a terminal.
    assert send(first, "PUT", "/admin/auth", LOGIN)[0] == 200
    until(lambda: status(second, "/v1/models") == 401)
    listed = second.run("overrides", "list", "--json")
    names = [(each["section"], each["label"]) for each in json.loads(listed.stdout)]
    assert names == [
        ("auth", "dynamic"),
        ("mcp", "dynamic"),
        ("memory", "dynamic"),
        ("providers", "override"),
    ]
    assert KEY not in listed.stdout
    # A restart keeps them.
    end(second.attached[0])
    second.serve()
    assert status(second, "/v1/models") == 401
    reset = second.run("overrides", "reset", "auth")
    assert "deleted 'auth'" in reset.stdout, reset.stderr
    until(lambda: status(first, "/v1/models") == 200)
    _, exported, _ = send(second, "GET", "/admin/config", headers=YAML_TEXT)
    assert f"base_url: {fake.base_url}" in exported
    assert "${TEST_PROVIDER_KEY}" in exported
    assert [each.config.read_bytes() for each in servers] == files


def test_login_without_its_variable_is_not_lifted_on_one_server(
    servers: list[Project],
) -> None:
    first, second = servers
    assert send(first, "PUT", "/admin/auth", LOGIN)[0] == 200
    until(lambda: status(second, "/v1/models") == 401)
    assert first.run("check").returncode == 0
    # The second server lacks its variable: it keeps the login that it has.
    store = first.run(
        "shell",
        "-c",
        "from config.models import Override\n"
        "from config.loading.overlays import Overlay\n"
        f"text = {LOGIN_OF_FIRST!r}\n"
        "Override.objects.store(Overlay('auth', 'auth', text), by='user:ada')",
    )
    assert store.returncode == 0, store.stderr
    until(lambda: status(second, "/health/ready") == 503)
    assert '"configuration":"invalid"' in send(second, "GET", "/health/ready")[1]
    assert status(second, "/v1/models") == 401
    assert status(first, "/health/ready") == 200
    # It starts only once the cause is gone.
    output = end(second.attached[0])
    assert "the previous configuration stays in force" in output
    for words in (("start", "-F"), ("check",)):
        refused = second.run(*words)
        assert refused.returncode != 0
        said = refused.stdout + refused.stderr
        assert "environment variable 'TEST_LOGIN' is not set" in said
        assert "`coulisse overrides reset auth`" in said
    second.environment["TEST_LOGIN"] = KEY
    second.serve()
    assert status(second, "/v1/models") == 401
    end(second.attached[-1])
    del second.environment["TEST_LOGIN"]
    assert second.run("overrides", "reset", "auth").returncode == 0
    second.serve()
    assert status(second, "/v1/models") == 200
