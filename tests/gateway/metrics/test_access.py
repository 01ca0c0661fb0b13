"""Who may read `/metrics`."""

from urllib.parse import urlsplit

import httpx2
import pytest

from config.loading import loader
from core.errors import CoulisseError
from telemetry.metrics import recording
from tests.gateway.calls import ask
from tests.gateway.metrics.conftest import settings_yaml

pytestmark = pytest.mark.database

TOKEN = "scrape-6f2a9c81d4"


def status(server: str, **headers: str) -> int:
    return httpx2.get(f"{server}/metrics", headers=headers).status_code


def test_metrics_are_off_by_default(server, client, user):
    assert status(server) == 404
    ask(client, user)
    assert recording.active is None


def test_this_machine_may_read_them(measured):
    assert status(measured) == 200
    port = urlsplit(measured).port
    assert status(f"http://localhost:{port}") == 200


@pytest.mark.parametrize(
    "headers",
    [{"X-Forwarded-For": "192.0.2.1"}, {"Via": "1.1 proxy"}, {"Host": "192.0.2.1"}],
    ids=["forwarded", "via", "host"],
)
def test_proxies_on_this_machine_may_not(measured, headers):
    response = httpx2.get(f"{measured}/metrics", headers=headers)
    assert response.status_code == 403
    assert response.json()["error"]["code"] == "metrics_not_allowed"


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({}, 401),
        ({"Authorization": "Bearer wrong"}, 401),
        ({"Authorization": f"Basic {TOKEN}"}, 401),
        ({"Authorization": f"Bearer {TOKEN}é".encode("latin-1")}, 401),
        ({"Authorization": f"Bearer {TOKEN}"}, 200),
        ({"Authorization": f"Bearer {TOKEN}", "X-Forwarded-For": "192.0.2.1"}, 200),
    ],
    ids=["none", "wrong", "scheme", "longer", "right", "forwarded"],
)
def test_token_is_required(server, measure, headers, expected):
    measure(f"{{enabled: true, token: {TOKEN}}}")
    assert status(server, **headers) == expected


def test_networks_are_compared_with_the_connection(server, measure):
    measure("{enabled: true, networks: [192.0.2.0/24]}")
    assert status(server) == 403
    assert status(server, **{"X-Forwarded-For": "192.0.2.1"}) == 403
    measure("{enabled: true, networks: [192.0.2.0/24, 127.0.0.1]}")
    assert status(server) == 200
    assert status(server, Host="server") == 200
    assert status(server, **{"X-Forwarded-For": "127.0.0.1"}) == 403


def test_networks_and_token_are_both_required(server, measure):
    secret = {"Authorization": f"Bearer {TOKEN}"}
    measure(f"{{enabled: true, token: {TOKEN}, networks: [192.0.2.0/24]}}")
    assert status(server, **secret) == 403
    measure(f"{{enabled: true, token: {TOKEN}, networks: [127.0.0.0/8]}}")
    assert status(server) == 401
    assert status(server, **secret) == 200


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("{enabled: true, token: short}", "must have at least 16 characters"),
        ("{enabled: true, networks: [everyone]}", "must be an IP address or a network"),
        ("{enabled: true, public: true}", "public"),
    ],
    ids=["token", "network", "unknown"],
)
def test_invalid_settings_name_the_remedy(tmp_path, text, problem):
    path = tmp_path / "coulisse.yaml"
    path.write_text(settings_yaml(text).replace("{fake}", "http://127.0.0.1:9"))
    with pytest.raises(CoulisseError, match=problem):
        loader.load_file(path)
