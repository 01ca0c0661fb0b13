"""Failures of providers, of the server and of its database."""

import contextlib
import math
import socket
import threading
import time

import httpx2
import pytest
from django.conf import settings
from django.db import OperationalError, connection

from database import database_executor
from database.running_processes import STATE
from memory.transcript import message_store
from tests.gateway.calls import (
    ask,
    body,
    choices,
    error,
    frames,
    post,
    refused,
    stored,
    until,
)
from tests.gateway.openai.test_errors import BOTH

pytestmark = pytest.mark.database


# Providers that fail.

FAILURES = [
    (400, {"code": "odd"}, 400, "invalid_request_error", "odd"),
    (401, {}, 502, "upstream_error", "provider_key_refused"),
    (402, {}, 502, "upstream_error", "provider_out_of_credit"),
    (403, {}, 502, "upstream_error", "provider_key_refused"),
    (404, {}, 502, "upstream_error", "provider_model_unknown"),
    (408, {}, 503, "upstream_error", "provider_overloaded"),
    (413, {"code": "odd"}, 400, "invalid_request_error", "odd"),
    (422, {"code": "odd"}, 400, "invalid_request_error", "odd"),
    (429, {}, 429, "upstream_error", "provider_rate_limited"),
    (
        429,
        {"code": "insufficient_quota"},
        502,
        "upstream_error",
        "provider_out_of_credit",
    ),
    (500, {}, 503, "upstream_error", "provider_overloaded"),
    (503, {}, 503, "upstream_error", "provider_overloaded"),
    (529, {}, 503, "upstream_error", "provider_overloaded"),
    (307, {}, 502, "upstream_error", "provider_broken_reply"),
]


@BOTH
@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize(("status", "more", "answer", "type", "code"), FAILURES)
def test_provider_status_maps_to_client_status(
    server, fake, user, agent, stream, status, more, answer, type, code
):
    key = "sk-the-secret-0123456789"
    fake.fail(status, f"the key {key} is no good", **more)
    response = post(server, body(user, agent=agent, stream=stream))
    refusal = error(response, answer)
    assert refusal["type"] == type
    assert refusal["code"] == code
    assert "secret" not in response.text
    assert stored(user) == []


@BOTH
def test_parameter_refused_by_provider_is_named(server, fake, user, agent):
    fake.fail(400, "too hot", param="temperature", code="bad_temperature")
    refusal = refused(server, body(user, agent=agent))
    assert "too hot" in refusal["message"]
    assert refusal["param"] == "temperature"
    assert refusal["code"] == "bad_temperature"


@BOTH
@pytest.mark.parametrize("status", [429, 503])
@pytest.mark.parametrize(("requested", "passed"), [("7", "7"), ("1.2", "2")])
def test_provider_retry_after_is_passed_on(
    server, fake, user, agent, status, requested, passed
):
    fake.fail(status, headers={"Retry-After": requested})
    response = post(server, body(user, agent=agent))
    error(response, status)
    assert response.headers["retry-after"] == passed


@BOTH
@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize(
    ("message", "status", "code"),
    [
        ("<html>hello</html>", 502, "provider_broken_reply"),
        ("[]", 502, "provider_broken_reply"),
        ("{}", 502, "provider_broken_reply"),
        ('{"error": "no"}', 503, "provider_overloaded"),
    ],
)
def test_malformed_provider_reply_is_upstream_error(
    server, fake, user, agent, stream, message, status, code
):
    fake.raw(message)
    request = body(user, agent=agent, stream=stream)
    assert refused(server, request, status)["code"] == code


@BOTH
@pytest.mark.parametrize("stream", [True, False])
def test_provider_disconnect_is_502(server, fake, user, agent, stream):
    fake.cut("headers")
    request = body(user, agent=agent, stream=stream)
    assert refused(server, request, 502)["code"] == "provider_disconnected"


def silent(timeout: str) -> str:
    return (
        "providers:\n"
        f"  openai: {{base_url: '{{fake}}/v1', retries: 0, timeouts: {timeout}}}\n"
        "agents: [{name: assistant, provider: openai, model: gpt}]"
    )


@pytest.mark.parametrize(
    ("stream", "timeout"),
    [(True, "{first_token_seconds: 0.05}"), (False, "{total_seconds: 0.05}")],
)
def test_silent_provider_times_out(server, fake, user, configure, stream, timeout):
    configure(silent(timeout))
    fake.hang("headers")
    refusal = refused(server, body(user, stream=stream), 504)
    assert refusal["code"] == "provider_timed_out"
    assert refusal["type"] == "upstream_error"


def test_unreachable_provider_is_502(server, user, configure):
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
        configure(
            "providers:\n"
            f"  openai: {{base_url: 'http://127.0.0.1:{port}/v1', retries: 0}}\n"
            "agents: [{name: assistant, provider: openai, model: gpt}]"
        )
        refusal = refused(server, body(user), 502)
    assert refusal["code"] == "provider_unreachable"


def test_stopped_local_model_is_unavailable(server, user, configure, monkeypatch):
    monkeypatch.delenv("COULISSE_LOCAL_MODEL_URL", raising=False)
    configure(
        "providers: {local: }\nagents: [{name: assistant, provider: local, model: m}]"
    )
    refusal = refused(server, body(user), 503)
    assert refusal["type"] == "service_unavailable"
    assert refusal["code"] == "local_model_down"


def test_unrepairable_reply_names_provider_and_attempts(server, fake, user):
    for _ in range(3):
        fake.reply("no json")
    answer = post(server, body(user, response_format={"type": "json_object"}))
    assert error(answer, 502)["code"] == "response_format_mismatch"
    assert answer.headers["x-coulisse-provider"] == "openai"
    assert answer.headers["x-coulisse-attempts"] == "3"


# Internal errors.


@pytest.mark.parametrize("stream", [True, False])
def test_internal_error_hides_details(server, user, monkeypatch, stream):
    def fail(*args: object, **kwargs: object) -> None:
        raise RuntimeError("secret inside")

    monkeypatch.setattr("turns.preparation.prompt.new_messages", fail)
    response = post(server, body(user, stream=stream))
    refusal = error(response, 500)
    assert refusal["type"] == "server_error"
    assert refusal["code"] == "internal_error"
    assert "secret" not in response.text
    assert "Traceback" not in response.text


# An unavailable database.


@contextlib.contextmanager
def without_database():
    """Point the database executor to a missing database, and close its connections."""
    lost = {"sqlite": ("NAME", "/nowhere/test.db"), "postgresql": ("PORT", "1")}
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(connection.settings_dict, *lost[connection.vendor])
        on_every_executor_thread(lambda: connection.close())
        yield
    # Turns are refused until the next heartbeat; the server of the tests sends them.
    restored_at = time.monotonic()
    until(lambda: (STATE._written_at or math.inf) > restored_at and not STATE.problem)


@pytest.fixture
def database_down(server):
    with without_database():
        yield


def on_every_executor_thread(function) -> None:
    barrier = threading.Barrier(settings.COULISSE_DATABASE_THREADS)

    def visit() -> None:
        barrier.wait(60)
        function()

    visits = [database_executor._executor.submit(visit) for _ in range(barrier.parties)]
    for done in visits:
        done.result()


@BOTH
@pytest.mark.parametrize("stream", [True, False])
def test_database_outage_is_503(database_down, server, fake, user, agent, stream):
    refusal = refused(server, body(user, agent=agent, stream=stream), 503)
    assert refusal["type"] == "service_unavailable"
    assert refusal["code"] == "database_unavailable"
    assert "nowhere" not in refusal["message"]
    assert fake.requests == []


def test_readiness_requires_database_and_liveness_does_not(database_down, server):
    # The next heartbeat notices it.
    until(lambda: httpx2.get(f"{server}/health/ready").status_code == 503)
    checks = httpx2.get(f"{server}/health/ready").json()["checks"]
    assert checks == {"configuration": "ok", "database": "unavailable"}
    assert httpx2.get(f"{server}/health/live").status_code == 200
    assert httpx2.get(f"{server}/v1/models").status_code == 200


def test_requests_succeed_once_database_returns(server, client, user):
    with without_database():
        refused(server, body(user, "lost"), 503)
    ask(client, user, "found")
    assert stored(user)[0] == ("user", "found", "")


def test_restarted_database_is_reconnected(client, user):
    ask(client, user, "before")
    restart_database()
    ask(client, user, "after")
    assert [text for _, text, _ in stored(user)][::2] == ["before", "after"]


def restart_database() -> None:
    """End the executor's connections from the server's side, as a restart does."""
    if connection.vendor == "postgresql":
        pids: list[int] = []

        def note() -> None:
            connection.ensure_connection()
            pids.append(connection.connection.info.backend_pid)

        on_every_executor_thread(note)
        with connection.cursor() as cursor:
            for pid in pids:
                cursor.execute("SELECT pg_terminate_backend(%s)", [pid])


def test_unstorable_reply_is_an_error(server, fake, user, monkeypatch):
    def fail(*args: object, **kwargs: object) -> None:
        raise OperationalError("disk full")

    monkeypatch.setattr(message_store, "append_turn", fail)
    assert refused(server, body(user), 503)["code"] == "database_unavailable"
    *message, failed, done = frames(server, body(user))
    assert done == "[DONE]"
    assert failed["error"]["code"] == "database_unavailable"
    assert not any(choice["finish_reason"] for choice in choices(message))
