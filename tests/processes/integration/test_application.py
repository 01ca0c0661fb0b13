"""The real application under the real supervisor, with a scripted provider."""

import http.client
import json
import os
import signal
import sqlite3
import threading
import urllib.request
from collections.abc import Iterator

import pytest

from testing.scripted_provider import FakeProvider, RecordedRequest
from testing.wires import ScriptedAnswer
from tests.processes.conftest import TIMEOUT_SECONDS, Project, end, until

YAML = """
server: {{bind: 127.0.0.1, port: {port}, worker_threads: 2}}
users: shared
providers:
  openai: {{api_key: k, base_url: "{url}"}}
agents:
  - {{name: assistant, provider: openai, model: gpt-test}}
"""


@pytest.fixture
def served(project: Project, fake: FakeProvider) -> Iterator[Project]:
    project.environment["DJANGO_SETTINGS_MODULE"] = "coulisse_site.settings"
    project.config.write_text(YAML.format(port=project.port, url=fake.base_url))
    process = project.serve()
    yield project
    end(process)


def ask(project: Project, text: str) -> str:
    question = {
        "model": "assistant",
        "messages": [{"role": "user", "content": text}],
    }
    request = urllib.request.Request(
        f"{project.url}/v1/chat/completions",
        json.dumps(question).encode(),
        {"content-type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=TIMEOUT_SECONDS) as response:
        return json.load(response)["choices"][0]["message"]["content"]


def echo(request: RecordedRequest) -> ScriptedAnswer:
    return ScriptedAnswer((f"reply to {request.body['messages'][-1]['content']}",))


def test_config_edit_reaches_every_web_process(served: Project) -> None:
    with served.config.open("a") as file:
        file.write("  - {name: newcomer, provider: openai, model: gpt-test}\n")
    # Any process may accept a connection, so twenty in a row reach both.
    until(lambda: all('"newcomer"' in served.get("/v1/models") for _ in range(20)))
    check_override_reaches_every_process(served)
    log = [child.restarts for child in served.run_record.children]
    assert log == [0, 0]


def check_override_reaches_every_process(served: Project) -> None:
    text = b"name: usher\nprovider: openai\nmodel: gpt-test\n"
    request = urllib.request.Request(
        f"{served.url}/admin/agents", text, {"content-type": "application/yaml"}
    )
    with urllib.request.urlopen(request, timeout=TIMEOUT_SECONDS) as response:
        assert response.status == 201
    until(lambda: all('"usher"' in served.get("/v1/models") for _ in range(20)))
    # A command undoes it.
    reset = served.run("overrides", "reset", "agents", "usher")
    assert reset.returncode == 0, reset.stderr
    until(lambda: all('"usher"' not in served.get("/v1/models") for _ in range(20)))


def test_delivered_answers_survive_a_killed_process(
    served: Project, fake: FakeProvider
) -> None:
    fake.default = echo
    delivered: list[str] = []
    is_stopping = threading.Event()

    def talk(caller: int) -> None:
        number = 0
        while not is_stopping.is_set():
            number += 1
            text = f"question {caller}-{number}"
            try:
                delivered.append(ask(served, text))
            except (OSError, http.client.HTTPException):
                continue  # Its process was killed before the delivery.

    callers = [threading.Thread(target=talk, args=(number,)) for number in range(4)]
    for caller in callers:
        caller.start()
    until(lambda: len(delivered) > 20)
    for child in served.run_record.children:
        os.kill(child.pid, signal.SIGKILL)
    so_far = len(delivered)
    until(lambda: len(delivered) > so_far + 20)
    is_stopping.set()
    for caller in callers:
        caller.join()
    with sqlite3.connect(served.state.root / "coulisse-memory.db") as database:
        stored = "".join(database.iterdump())
    assert delivered[0].startswith("reply to question ")
    assert [text for text in delivered if f"'{text}'" not in stored] == []
