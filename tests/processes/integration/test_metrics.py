"""Metrics of a server with two web processes, a worker and beat."""

import json
import os
import signal
import urllib.error
import urllib.request

import pytest

from testing.scripted_provider import FakeProvider
from tests.processes.conftest import Project, end, until
from tests.processes.integration.test_application import ask
from tests.telemetry.metrics.scrapes import Scrape

YAML = """
server: {{bind: 127.0.0.1, port: {port}, worker_threads: 2}}
users: shared
telemetry: {{metrics: {{enabled: true}}}}
providers:
  openai: {{api_key: k, base_url: "{url}"}}
agents:
  - {{name: assistant, provider: openai, model: gpt-test}}
"""
PROCESSES = {"beat-0", "web-0", "web-1", "worker-0"}


@pytest.fixture
def served(project: Project, fake: FakeProvider) -> Project:
    project.environment["DJANGO_SETTINGS_MODULE"] = "coulisse_site.settings"
    project.environment["COULISSE_PROCESSES"] = "web,worker,beat"
    project.config.write_text(YAML.format(port=project.port, url=fake.base_url))
    project.serve()
    until(lambda: measured_processes(project) == PROCESSES)
    return project


def scrape(project: Project) -> Scrape:
    request = urllib.request.Request(
        f"{project.url}/metrics", headers={"Accept": "application/openmetrics-text"}
    )
    with urllib.request.urlopen(request, timeout=60) as response:
        return Scrape(response.read().decode())


def measured_processes(project: Project) -> set[str]:
    name = "coulisse_process_resident_memory_bytes"
    return scrape(project).labels(name, "process")


def turns(project: Project) -> float:
    return scrape(project).value("coulisse_turns_total", outcome="ok")


def kill(project: Project, name: str) -> None:
    """Kill a child, and wait for its successor."""
    (killed,) = (each for each in project.run_record.children if each.name == name)
    os.kill(killed.pid, signal.SIGKILL)

    def is_replaced() -> bool:
        (child,) = (each for each in project.run_record.children if each.name == name)
        return child.pid not in (None, killed.pid) and child.state == "running"

    until(is_replaced)


def test_every_web_process_answers_for_all(served: Project, fake: FakeProvider) -> None:
    for _ in range(8):
        fake.reply("ok")
        ask(served, "hi")
    # Any process may accept a connection.
    assert {turns(served) for _ in range(10)} == {8}
    found = scrape(served)
    for role, count in (("web", 2), ("worker", 1), ("beat", 1)):
        assert found.value("coulisse_processes", role=role) == count
    until(lambda: scrape(served).exemplars("coulisse_turn_seconds_bucket"))

    # Counters survive; a killed worker is missing until its successor runs.
    kill(served, "web-1")
    kill(served, "worker")
    until(lambda: measured_processes(served) == PROCESSES)
    assert turns(served) == 8
    fake.reply("ok")
    ask(served, "hi")
    assert turns(served) == 9

    check_agent_task_of_the_worker(served, fake)
    check_invalid_edit(served)
    check_metrics_can_be_turned_off(served)
    end(served.attached[0])


def check_agent_task_of_the_worker(served: Project, fake: FakeProvider) -> None:
    fake.reply("done")
    task = {"agent": "assistant", "prompt": "work"}
    request = urllib.request.Request(
        f"{served.url}/v1/tasks",
        json.dumps(task).encode(),
        {"content-type": "application/json"},
    )
    urllib.request.urlopen(request, timeout=60).close()
    until(lambda: turns(served) == 10)


def check_invalid_edit(served: Project) -> None:
    valid = served.config.read_text()
    served.config.write_text(f"{valid}nonsense: 1\n")
    until(lambda: refusing(served) == PROCESSES)
    assert scrape(served).value("coulisse_config_reload_failures_total") == 4
    served.config.write_text(f"{valid}# valid\n")
    until(lambda: refusing(served) == set())


def refusing(served: Project) -> set[str]:
    samples = scrape(served).samples("coulisse_config_file_valid")
    return {each.labels["process"] for each in samples if not each.value}


def check_metrics_can_be_turned_off(served: Project) -> None:
    text = served.config.read_text().replace("{enabled: true}", "{enabled: false}")
    served.config.write_text(text)

    def is_off() -> bool:
        try:
            scrape(served)
        except urllib.error.HTTPError as exc:
            return exc.code == 404
        return False

    until(lambda: all(is_off() for _ in range(10)))
