"""Requests that are refused before their body is read."""

import json
import socket
from collections.abc import Callable, Iterator
from urllib.parse import urlsplit

import httpx2
import pytest

from access.tokens import api_tokens
from core.network import hosts
from gateway.asgi import admission
from gateway.auth.authentication import CredentialChecker
from tests.access.actors import ADA
from tests.conftest import CONFIG
from tests.gateway.calls import PATH, basic, bearer, body, post

pytestmark = pytest.mark.database

TOKENS = CONFIG + "auth: {proxy: {tokens: {}}}\n"
LOGINS = "{basic: [{username: ada, password: 'a long password'}]}"
BASIC = CONFIG + f"auth: {{proxy: {LOGINS}, admin: {LOGINS}}}\n"
STUDIO = CONFIG + f"auth: {{admin: {LOGINS}}}\n"
HOOK = """
triggers:
  - {name: small, type: webhook, path: /hooks/small, agent: assistant,
     prompt: hi, max_body_bytes: 1000}
"""
MIB = 1024 * 1024

Ask = Callable[..., tuple[int, dict[str, str], bytes]]


@pytest.fixture
def ask(running: str) -> Iterator[Ask]:
    """Return a function that sends only headers and returns the response."""
    sockets = []

    def ask(path: str, length: int = MIB, **headers: str) -> tuple[int, dict, bytes]:
        address = urlsplit(running)
        opened = socket.create_connection((address.hostname, address.port), 60)
        sockets.append(opened)
        lines = {
            "Host": "127.0.0.1",
            "Content-Type": "application/json",
            "Content-Length": str(length),
            **{name.replace("_", "-"): value for name, value in headers.items()},
        }
        result = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
        opened.sendall(f"POST {path} HTTP/1.1\r\n{result}\r\n".encode())
        heard = b""
        while b"\r\n\r\n" not in heard or not heard.endswith(b"}"):
            piece = opened.recv(65536)
            assert piece, heard
            heard += piece
        head, _, content = heard.partition(b"\r\n\r\n")
        status, *fields = head.decode().split("\r\n")
        named = dict(field.lower().split(": ", 1) for field in fields)
        return int(status.split()[1]), named, content

    yield ask
    for opened in sockets:
        opened.close()


def test_authentication_exception_returns_server_error(ask, configure, monkeypatch):
    async def fail(self: CredentialChecker, request: object) -> None:
        raise RuntimeError("a fault of ours")

    monkeypatch.setattr(CredentialChecker, "admit", fail)
    configure(TOKENS)
    status, headers, content = ask(PATH, Expect="100-continue")
    assert (status, headers["connection"]) == (500, "close")
    error = json.loads(content)["error"]
    assert (error["type"], "RuntimeError" in str(error)) == ("server_error", False)


@pytest.mark.parametrize(
    ("config", "headers"),
    [
        (TOKENS, {}),
        (TOKENS, {"Authorization": "Bearer sk-unused"}),
        (BASIC, {}),
        (BASIC, {"Expect": "100-continue"}),
        (BASIC, basic("ada", "wrong")),
    ],
)
@pytest.mark.parametrize("path", [PATH, "/v1/memories", "/mcp"])
def test_unauthenticated_request_is_refused_before_its_body(
    configure, ask, config, headers, path
):
    configure(config)
    status, result, content = ask(path, **headers)
    assert status == 401
    assert result["connection"] == "close"
    assert "www-authenticate" in result
    assert "message" in json.loads(content)["error"]


def test_expect_continue_client_is_authenticated_by_headers(configure, running, fake):
    configure(BASIC)
    content = json.dumps(body("ada")).encode()
    address = urlsplit(running)
    head = "".join(f"{k}: {v}\r\n" for k, v in basic("ada", "a long password").items())
    with socket.create_connection((address.hostname, address.port), 60) as caller:
        caller.sendall(
            f"POST {PATH} HTTP/1.1\r\nHost: 127.0.0.1\r\n{head}Expect: 100-continue"
            f"\r\nContent-Type: application/json\r\nContent-Length: {len(content)}"
            "\r\n\r\n".encode()
        )
        assert caller.recv(65536) == b"HTTP/1.1 100 Continue\r\n\r\n"
        caller.sendall(content)
        assert caller.recv(65536).startswith(b"HTTP/1.1 200")


@pytest.mark.parametrize("size", [100, MIB, 10 * MIB])
def test_refusal_reaches_client_that_sends_its_whole_body(configure, running, size):
    configure(TOKENS)
    address = urlsplit(running)
    with socket.create_connection((address.hostname, address.port), 60) as caller:
        caller.sendall(
            f"POST {PATH} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: {size}"
            "\r\n\r\n".encode()
        )
        caller.sendall(b" " * size)
        assert caller.recv(65536).startswith(b"HTTP/1.1 401")
        while caller.recv(65536):
            pass


def test_a_refused_client_may_call_again(configure, running):
    configure(BASIC)
    with httpx2.Client(base_url=running, timeout=60, verify=False) as http:
        for _ in range(3):
            assert http.post(PATH, json=body("ada")).status_code == 401
        credentials = basic("ada", "a long password")
        assert http.post(PATH, json=body("ada"), headers=credentials).status_code == 200


@pytest.mark.parametrize("config", [TOKENS, BASIC])
def test_a_credential_is_checked_once(
    configure, running, fake, user, monkeypatch, config
):
    configure(config)
    checks = []
    original = CredentialChecker.admit

    async def admit(self, request):
        checks.append(request.path)
        return await original(self, request)

    monkeypatch.setattr(CredentialChecker, "admit", admit)
    secret = api_tokens.create_token("test", user, by=ADA)[1]
    credentials = (
        bearer(secret) if config is TOKENS else basic("ada", "a long password")
    )
    answer = post(running, body(user), headers=credentials)
    assert answer.status_code == 200, answer.text
    assert checks == [PATH]


def test_open_server_asks_for_no_credentials(server, user):
    assert post(server, body(user)).status_code == 200


def test_an_unknown_webhook_is_refused_before_the_body(configure, ask):
    configure(CONFIG + HOOK)
    status, result, content = ask("/hooks/none")
    assert (status, result["connection"]) == (404, "close")
    assert json.loads(content)["error"]["code"] == "webhook_not_found"


@pytest.mark.parametrize("length", [1001, MIB, 10**12])
def test_webhook_body_limit_applies_before_the_body(configure, ask, length, caplog):
    configure(CONFIG + HOOK)
    status, _, content = ask("/hooks/small", length)
    assert status == 413
    assert "max_body_bytes" not in json.loads(content)["error"]["message"]
    assert "webhook trigger refused" in caplog.text
    assert "raise this webhook's max_body_bytes" in caplog.text


@pytest.mark.parametrize("path", ["/", "/health/live", "/nothing"])
def test_body_is_limited_on_routes_that_take_none(server, ask, path):
    status, _, content = ask(path, admission.SMALL_BODY_BYTES + 1)
    assert status == 413
    assert json.loads(content)["error"]["code"] == "body_too_large"


def test_unauthenticated_studio_request_may_send_little(configure, ask, running):
    configure(STUDIO)
    status, _, content = ask("/admin/yaml/", admission.SMALL_BODY_BYTES + 1)
    assert status == 413
    assert json.loads(content)["error"]["code"] == "body_too_large"
    small = httpx2.post(f"{running}/admin/yaml/", content=b"x" * 1000)
    assert small.status_code == 401
    credentials = basic("ada", "a long password")
    large = httpx2.post(
        f"{running}/admin/none/", content=b"x" * MIB, headers=credentials
    )
    assert large.status_code not in (401, 413)


def test_local_studio_accepts_large_bodies(server):
    answer = httpx2.post(f"{server}/admin/none/", content=b"x" * MIB)
    assert answer.status_code != 413


def test_host_cache_stays_bounded():
    hosts._is_allowed.cache_clear()
    for number in range(1000):
        assert not hosts.is_allowed(b"%d." % number * 10_000, ())
    assert hosts._is_allowed.cache_info().currsize == 0
    for port in range(1000):
        assert hosts.is_allowed(b"LocalHost:%d" % port, ())
    assert hosts._is_allowed.cache_info().currsize == 1


def test_overlong_origin_is_refused(server):
    headers = {"Origin": f"http://{'a' * 60_000}", "Content-Type": "application/json"}
    answer = httpx2.post(f"{server}/mcp", content=b"{}", headers=headers)
    assert answer.status_code == 403
