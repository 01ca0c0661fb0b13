"""Incidents are reported to webhooks, by tasks that are retried."""

import asyncio
import contextlib
import socket
import threading
import time
from datetime import UTC, datetime, timedelta

import pytest

from memory.models import Session, Thread
from memory.models.sessions import EndReason
from safety import webhooks
from safety.config import WebhookConfig
from safety.incidents import INCOGNITO_USER
from safety.models import Incident
from tasks.models import Task
from tests.gateway.calls import body, post
from tests.safety.safe_server import check, incidents_of, safety_yaml
from tests.tasks.conftest import RunnerHarness, user_id  # noqa: F401

pytestmark = pytest.mark.database

URL = "{fake}/hook"
HEADERS = {"Authorization": "Bearer secret-of-the-hook"}


@pytest.fixture
def worker(user_id):  # noqa: F811
    harness = RunnerHarness([user_id, INCOGNITO_USER], kinds=["safety"])
    yield harness
    harness.stop()


def hooked(**fields) -> str:
    action = {"replace": "Sorry.", "webhook": {"url": URL, "headers": HEADERS}}
    return safety_yaml(check(actions={"flagged": action}), **fields)


def run_tasks(worker, user_id) -> Task:  # noqa: F811
    (task,) = Task.objects.filter(user_id=user_id, kind="safety")
    worker.check_queue()
    return worker.wait_for_end(task)


def test_incident_is_reported(worker, server, configure, fake, user, user_id):  # noqa: F811
    configure(hooked())
    response = post(server, body(user, "forbidden word"))
    assert response.json()["coulisse"]["safety"]["actions"] == ["replace"]
    task = run_tasks(worker, user_id)
    assert (task.state, task.result) == ("done", "status 200")
    (request,) = fake.requests
    assert request.path == "/hook"
    assert request.headers["authorization"] == HEADERS["Authorization"]
    (incident,) = incidents_of(user_id)
    assert request.body == {
        "object": "safety.incident",
        "id": incident.pk,
        "at": incident.at.isoformat(),
        "check": "words",
        "level": "flagged",
        "severity": 1,
        "stage": "before",
        "agent": "assistant",
        "actions": ["replace", "webhook"],
        "user_id": str(user_id),
        "thread_id": None,
        "turn_id": str(incident.turn_id),
    }


def test_failed_webhook_is_retried(worker, server, configure, fake, user, user_id):  # noqa: F811
    configure(hooked())
    fake.fail(503)
    post(server, body(user, "forbidden"))
    assert run_tasks(worker, user_id).state == "done"
    assert len(fake.requests) == 2


def test_refusal_and_redirects_are_final(
    worker,
    server,
    configure,
    fake,
    user,
    user_id,  # noqa: F811
):
    configure(hooked())
    fake.fail(302, headers={"Location": "http://127.0.0.1:1/"})
    post(server, body(user, "forbidden"))
    task = run_tasks(worker, user_id)
    assert (task.state, task.error) == ("errored", "the webhook returned 302")
    assert len(fake.requests) == 1


def test_webhook_that_never_ends_its_answer_is_given_up(monkeypatch):
    def drip(listener):
        connection, _ = listener.accept()
        with connection, contextlib.suppress(ConnectionError):
            connection.sendall(b"HTTP/1.1 200 OK\r\nX-Slow:")
            while True:
                connection.sendall(b" ")
                time.sleep(0.01)

    monkeypatch.setattr(webhooks, "TIMEOUT_SECONDS", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        server = threading.Thread(target=drip, args=[listener])
        server.start()
        host, port = listener.getsockname()
        webhook = WebhookConfig(url=f"http://{host}:{port}/")
        with pytest.raises(webhooks.WebhookFailed, match="TimeoutError"):
            asyncio.run(asyncio.wait_for(webhooks._send(webhook, {}), 30))
        server.join()


def test_erased_incident_is_not_reported(
    worker,
    server,
    configure,
    fake,
    user,
    user_id,  # noqa: F811
):
    configure(hooked())
    post(server, body(user, "forbidden"))
    Incident.objects.filter(user_id=user_id).delete()
    assert run_tasks(worker, user_id).result == "the incident was deleted"
    assert not fake.requests


def test_incognito_turn_is_reported_without_identity(
    worker,
    server,
    configure,
    fake,
    user,
    user_id,  # noqa: F811
):
    configure(hooked())
    post(server, body(user, "forbidden", metadata={"memory": "incognito"}))
    assert not Task.objects.filter(user_id=user_id).exists()
    worker.check_queue()
    fake.wait(lambda: any(request.path == "/hook" for request in fake.requests))
    (request,) = fake.requests
    assert request.body["user_id"] is request.body["turn_id"] is None


def test_levels_of_ended_sessions_do_not_count(
    server,
    configure,
    fake,
    user,
    user_id,  # noqa: F811
):
    configure(safety_yaml(check()))
    post(server, body(user, "forbidden"))
    thread = Thread.objects.get(user_id=user_id)
    times = dict.fromkeys(("started_at", "ended_at", "closed_at"), datetime.now(UTC))
    Session.objects.create(
        user_id=user_id,
        thread=thread,
        first_position=0,
        end_position=2,
        reason=EndReason.REQUEST,
        **times,
    )
    response = post(server, body(user, "Hello"))
    assert response.json()["coulisse"]["safety"]["session"] == {"words": "none"}
    times = dict.fromkeys(times, datetime.now(UTC) - timedelta(hours=1))
    Session.objects.filter(user_id=user_id).update(**times)
    response = post(server, body(user, "Hello"))
    assert response.json()["coulisse"]["safety"]["session"] == {"words": "flagged"}
