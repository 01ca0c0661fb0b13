"""`/health`: liveness and readiness, without a model call."""

import httpx2
import pytest

from config import live
from config.errors import ConfigInvalid

pytestmark = pytest.mark.database


def test_liveness_is_ok(server, fake):
    response = httpx2.get(f"{server}/health/live")
    assert (response.status_code, response.json()) == (200, {"status": "ok"})
    assert fake.requests == []


def test_readiness_checks_configuration_and_database(server, fake):
    response = httpx2.get(f"{server}/health/ready")
    assert response.status_code == 200
    body = response.json()
    assert body["status"] == "ok"
    assert body["checks"] == {"configuration": "ok", "database": "ok"}
    assert fake.requests == []


def test_readiness_fails_without_a_valid_configuration(server, monkeypatch):
    current = live.current
    calls = []

    def fail_for_health():
        # The handler reads the configuration first, for the body limit.
        calls.append(1)
        if len(calls) == 1:
            return current()
        raise ConfigInvalid([])

    monkeypatch.setattr(live, "current", fail_for_health)
    response = httpx2.get(f"{server}/health/ready")
    assert response.status_code == 503
    assert response.json()["checks"]["configuration"] == "invalid"
