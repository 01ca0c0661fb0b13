"""Only trusted proxies can set the address of the client."""

import ipaddress
import json

import httpx2
import pytest

from processes.http_server.connections import ConnectionLimits
from tests.conftest import serve

FORWARDED = {"X-Forwarded-For": "203.0.113.7", "X-Forwarded-Proto": "https"}


async def application(scope, receive, send):
    """Respond with the client's address and scheme."""
    if scope["type"] == "lifespan":
        while (await receive())["type"] != "lifespan.shutdown":
            await send({"type": "lifespan.startup.complete"})
        await send({"type": "lifespan.shutdown.complete"})
        return
    content = json.dumps([scope["client"][0], scope["scheme"]]).encode()
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": content})


def detected_client(headers, *proxies: str) -> list[str]:
    networks = tuple(ipaddress.ip_network(proxy) for proxy in proxies)
    with serve(application, limits=ConnectionLimits(trusted_proxies=networks)) as url:
        response = httpx2.get(url, headers=headers, trust_env=False)
    client: list[str] = response.json()
    return client


def test_trusted_proxy_sets_the_client_address():
    assert detected_client(FORWARDED, "127.0.0.0/8") == ["203.0.113.7", "https"]


@pytest.mark.parametrize("proxies", [(), ("10.0.0.0/8",)])
def test_headers_of_untrusted_clients_are_ignored(proxies):
    assert detected_client(FORWARDED, *proxies) == ["127.0.0.1", "http"]


def test_last_untrusted_address_is_the_client():
    """Clients can send the header, too; the proxy appends the address that it saw."""
    forwarded = {"X-Forwarded-For": "198.51.100.1, 203.0.113.7, 10.0.0.2"}
    assert detected_client(forwarded, "127.0.0.1", "10.0.0.0/8") == [
        "203.0.113.7",
        "http",
    ]
