"""Requests for host names that are not this server's."""

import httpx2
import pytest

from core.network import hosts
from tests.gateway.calls import body, error, post

pytestmark = pytest.mark.database

EVIL = {"Host": "evil.example:8421", "Content-Type": "application/json"}


def test_foreign_host_is_refused(server, fake, user):
    refusal = error(post(server, body(user), headers=EVIL), 400)
    assert refusal["code"] == "host_not_allowed"
    assert "allowed_hosts" not in refusal["message"]
    assert fake.requests == []


@pytest.mark.parametrize("path", ["/health/live", "/v1/models", "/admin/"])
def test_foreign_host_is_refused_on_every_route(server, path):
    assert httpx2.get(server + path, headers=EVIL).status_code == 400


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1",
        "127.0.0.1:8421",
        "192.168.1.7:80",
        "[::1]:8421",
        "localhost",
        "coulisse",
        "coulisse:8421",
        "app.localhost",
        "LOCALHOST:1",
        "",
    ],
)
def test_addresses_and_local_names_are_allowed(server, host):
    response = httpx2.get(f"{server}/v1/models", headers={"Host": host})
    assert response.status_code == 200


@pytest.mark.parametrize(
    ("allowed", "host", "is_served"),
    [
        ("agents.example.com", b"agents.example.com:443", True),
        ("agents.example.com", b"AGENTS.example.com.", True),
        ("agents.example.com", b"other.example.com", False),
        (".example.com", b"a.b.example.com", True),
        (".example.com", b"example.com", True),
        (".example.com", b"evilexample.com", False),
        ("*", b"anything.at.all", True),
        ("1.2.3.4", b"1.2.3.4.evil.example", False),
    ],
)
def test_configured_hosts_are_allowed(allowed, host, is_served):
    assert hosts.is_allowed(host, (allowed,)) is is_served
