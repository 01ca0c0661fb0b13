"""What requests, turns and queues add to `/metrics`."""

import socket
import uuid
from datetime import UTC, datetime, timedelta
from urllib.parse import urlsplit

import httpx2
import pytest
from django.conf import settings as django_settings
from openai import APIStatusError

from access.users import identity
from core.ids import UserId
from database.errors import DatabaseDown
from gateway import api, metrics
from gateway.asgi import endpoint_kinds
from providers.transport import endpoint_pool
from tasks.models import Task
from tasks.queue import queue_metrics
from tasks.queue.task_spec import TaskSpec
from telemetry.metrics import recording
from telemetry.tracing import exporter
from tests.conftest import CONFIG
from tests.gateway.calls import ask, body, open_connection, until
from tests.gateway.metrics.conftest import OPEN_METRICS, scrape
from tests.telemetry.tracing.collector import http_collector

pytestmark = pytest.mark.database


def test_turn_is_counted_once(measured, client, user):
    ask(client, user)
    found = scrape(measured)
    labels = {"agent": "assistant", "provider": "openai", "model": "gpt-test"}
    assert found.value("coulisse_turns_total", **labels) == 1
    assert found.value("coulisse_turn_seconds_count", **labels) == 1
    assert found.value("coulisse_tokens_total", kind="output", **labels) > 0
    assert found.value("coulisse_provider_requests_total", outcome="ok") == 1
    chat = {"endpoint": "/v1/chat", "status": "200"}
    assert found.value("coulisse_requests_total", **chat) == 1


def test_failed_cancelled_and_incognito_turns_are_counted(measured, client, user, fake):
    fake.fail(400)
    with pytest.raises(APIStatusError):
        ask(client, user)
    fake.hang("mid_stream", "first")
    with open_connection(measured, body(user, stream=True)) as caller:
        caller.read_until("first")
    fake.reply("ok")
    until(lambda: scrape(measured).value("coulisse_turns_total", outcome="cancelled"))
    ask(client, user, metadata={"memory": "incognito"})
    found = scrape(measured)
    outcomes = {
        outcome: found.value("coulisse_turns_total", outcome=outcome)
        for outcome in ("ok", "error", "cancelled")
    }
    assert outcomes == {"ok": 1, "error": 1, "cancelled": 1}
    assert found.value("coulisse_provider_requests_total", outcome="error") == 1
    assert found.value("coulisse_time_to_first_token_seconds_count") == 1


def test_exemplar_is_the_turn_or_its_exported_trace(
    measured, measure, client, user, configure
):
    bucket = "coulisse_turn_seconds_bucket"
    ask(client, user, metadata={"memory": "incognito"})
    assert scrape(measured).exemplars(bucket) == {}
    reply = ask(client, user)
    turn_id = reply.id.removeprefix("chatcmpl-")
    assert scrape(measured).exemplars(bucket) == {"0.5": ("turn_id", turn_id)}
    with http_collector() as collector:
        otlp = f"otlp: {{endpoint: '{collector.url}', protocol: http}}"
        measure(f"{{enabled: true}}, {otlp}")
        headers = {"traceparent": f"00-{'ab' * 16}-{'cd' * 8}-01"}
        ask(client, user, extra_headers=headers)
        headers = {"traceparent": f"00-{'ef' * 16}-{'cd' * 8}-01"}
        ask(client, user, metadata={"memory": "incognito"}, extra_headers=headers)
        found = scrape(measured).exemplars(bucket)
        configure(CONFIG)
        exporter.close()
    assert found == {"0.5": ("trace_id", "ab" * 16)}


def test_user_is_not_named(measured, client, user):
    ask(client, user, metadata={"thread_id": "holiday"})
    recording.update("web")
    text = httpx2.get(f"{measured}/metrics", headers=OPEN_METRICS).text
    assert "turn_id=" in text
    for secret in (user, str(identity.derive_user_id(user)), "holiday"):
        assert secret not in text
        assert secret.replace("-", "") not in text


def test_refused_requests_are_counted(measured):
    assert httpx2.get(f"{measured}/v1/nothing").status_code == 404
    assert httpx2.get(f"{measured}/elsewhere/{uuid.uuid4()}").status_code == 404
    chat = f"{measured}/v1/chat/completions"
    assert httpx2.post(chat, content=b" " * 3_000_000).status_code == 413
    assert httpx2.post(chat, json={}).status_code == 400
    assert httpx2.get(chat, headers={"Host": "evil.example.com"}).status_code == 400
    assert send(measured, b"nonsense\r\n\r\n").startswith(b"HTTP/1.1 400")
    found = scrape(measured)
    counts = {
        (sample.labels["endpoint"], sample.labels["status"]): sample.value
        for sample in found.samples("coulisse_requests_total")
    }
    assert counts == {
        ("/metrics", "200"): 1,
        ("other", "404"): 2,
        ("/v1/chat", "413"): 1,
        ("/v1/chat", "400"): 2,
        ("unread", "400"): 1,
    }


def send(server: str, request: bytes) -> bytes:
    address = urlsplit(server)
    with socket.create_connection((address.hostname, address.port)) as client:
        client.sendall(request)
        return client.recv(4096)


def test_every_endpoint_has_its_kind():
    paths = {path.split("/")[1] for path in api.LIMITED_ROUTERS}
    paths |= {path.split("/")[1] for path in api.REQUEST_LIMITED_ROUTERS}
    paths |= {path.split("/")[1] for path in api.UNLIMITED_ROUTERS}
    assert paths | {"chat"} == endpoint_kinds.API_KINDS
    assert endpoint_kinds.find_kind("/v1/files/file-1") == "/v1/files"
    assert endpoint_kinds.find_kind("/") == "/"
    assert endpoint_kinds.find_kind("/v1/x") == "other"


def test_queues_are_read_at_the_scrape(measured):
    user_id = UserId(uuid.uuid4())
    now = datetime.now(UTC)
    before = scrape(measured)
    specs = [TaskSpec("judge", user_id, "assistant") for _ in range(4)]
    Task.objects.enqueue(specs)
    due, delayed, running, errored = Task.objects.filter(user_id=user_id)
    tasks = Task.objects
    tasks.filter(pk=due.pk).update(due_at=now - timedelta(days=400))
    tasks.filter(pk=delayed.pk).update(due_at=now + timedelta(hours=1))
    tasks.filter(pk=running.pk).update(state="running")
    tasks.filter(pk=errored.pk).update(state="errored", finished_at=now)
    found = scrape(measured)
    for name, labels in [
        ("coulisse_queue_tasks", {"state": "due"}),
        ("coulisse_queue_tasks", {"state": "delayed"}),
        ("coulisse_queue_tasks", {"state": "running"}),
        ("coulisse_dead_letters", {}),
    ]:
        queue = {"queue": "judges", **labels}
        assert found.value(name, **queue) == before.value(name, **queue) + 1
    age = found.value("coulisse_queue_oldest_seconds", queue="judges")
    assert age == pytest.approx(timedelta(days=400).total_seconds(), abs=60)
    assert found.value("coulisse_database_up") == 1


def test_unavailable_database_is_shown(measured, monkeypatch):
    def fail() -> None:
        raise DatabaseDown

    monkeypatch.setattr(queue_metrics, "read_figures", fail)
    found = scrape(measured)
    assert found.value("coulisse_database_up") == 0
    assert found.samples("coulisse_queue_tasks") == []
    assert found.value("coulisse_processes", role="web") == 1


def test_figures_of_the_database_are_reused(measured, monkeypatch):
    monkeypatch.setattr(metrics, "REUSE_SECONDS", 60)
    scrape(measured)
    monkeypatch.setattr(queue_metrics, "read_figures", list)
    assert scrape(measured).value("coulisse_database_up") == 1


def test_open_circuit_is_shown_until_it_closes(measured, client, user, fake):
    ask(client, user)
    (pool,) = endpoint_pool._pools.values()
    circuit = pool.endpoints[0].circuit
    circuit.open_until = float("inf")
    labels = {"provider": "openai", "model": "gpt-test", "endpoint": ""}
    assert scrape(measured).value("coulisse_circuit_breaker_open", **labels) == 1
    circuit.open_until = None
    closed = scrape(measured).samples("coulisse_circuit_breaker_open", **labels)
    assert [sample.value for sample in closed] == [0]


def test_gauges_describe_this_process(measured):
    found = scrape(measured)
    web = {"process": "web-0"}
    assert found.value("coulisse_process_resident_memory_bytes", **web) > 10_000_000
    assert found.value("coulisse_config_file_valid", **web) == 1
    threads = django_settings.COULISSE_DATABASE_THREADS
    assert found.value("coulisse_database_threads", **web) == threads
    # Work of earlier tests may still be running.
    assert 0 <= found.value("coulisse_database_threads_busy", **web) <= threads
    assert found.labels("coulisse_build_info", "version") == {"0.1.0"}
    assert found.value("coulisse_disk_free_bytes") > 0


def test_full_disk_turns_metrics_off_and_not_the_server(
    server, measure, client, user, monkeypatch, caplog
):
    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    measure()
    monkeypatch.setattr(recording, "ProcessFiles", fail)
    for _ in range(2):
        assert httpx2.get(f"{server}/metrics").status_code == 503
    ask(client, user)
    assert caplog.text.count("could not write the metrics") == 1
    monkeypatch.undo()
