"""Failed logins are delayed, and do not block other requests."""

import threading
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import httpx2
import pytest
from django.test import RequestFactory

from access.authentication import basic_auth as passwords
from access.authentication import login_throttle
from access.models import AuditEntry
from studio.server import access_middleware
from tests.access.clock import Clock
from tests.conftest import CONFIG
from tests.gateway.calls import WAIT_SECONDS, basic, error, until

pytestmark = pytest.mark.database

HASH = "pbkdf2_sha256$1$salt$" + "A" * 43 + "="
YAML = CONFIG + f"auth: {{admin: {{basic: {{password: '{HASH}'}}}}}}\n"
PASSWORD = "the-right-password"
RIGHT = basic("admin", PASSWORD)
STYLES = "/admin/static/studio/components.css"
PAGE = {"Accept": "text/html"}


@pytest.fixture
def clock(monkeypatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(login_throttle.STUDIO_THROTTLE, "clock", clock)
    return clock


@pytest.fixture
def hashing(monkeypatch) -> Iterator[SimpleNamespace]:
    """What computes hashes: it can be made to stand still."""
    hashing = SimpleNamespace(computed=[], may_end=threading.Event())
    hashing.may_end.set()

    def check_password(given: str, _: str) -> bool:
        hashing.computed.append(given)
        assert hashing.may_end.wait(WAIT_SECONDS)
        return given == PASSWORD

    monkeypatch.setattr(passwords.hashers, "check_password", check_password)
    yield hashing
    hashing.may_end.set()


@pytest.fixture
def client_at(running, configure, hashing, clock):
    """Return clients by their address on this machine."""
    configure(YAML)
    opened = []

    def client_at(address: str) -> httpx2.Client:
        transport = httpx2.HTTPTransport(local_address=address, verify=False)
        client = httpx2.Client(
            base_url=running, timeout=WAIT_SECONDS, transport=transport
        )
        opened.append(client)
        return client

    yield client_at
    for client in opened:
        client.close()


@pytest.fixture
def http(client_at) -> httpx2.Client:
    return client_at("127.0.0.1")


def guess(http: httpx2.Client, name: str = "admin") -> httpx2.Response:
    return http.get("/admin/", headers={**basic(name, uuid.uuid4().hex), **PAGE})


def test_hashing_does_not_block_pages_or_assets(client_at, http, hashing):
    assert http.get("/admin/agents", headers=RIGHT).status_code == 200
    hashing.may_end.clear()
    with ThreadPoolExecutor(24) as threads:
        # Of as many addresses and names, so that the queue is all that stops them.
        guesses = [
            threads.submit(guess, client_at(f"127.0.1.{number}"), f"name-{number}")
            for number in range(24)
        ]
        until(lambda: sum(each.done() for each in guesses) == 8)
        # The pool is full and stands still; these would wait for ever.
        for path in ("/admin/", "/admin/agents", "/admin/settings", STYLES):
            response = http.get(path, headers={**RIGHT, **PAGE})
            assert response.status_code == 200, path
        assert http.get(STYLES).status_code == 200
        assert guess(client_at("127.0.2.1"), "another").status_code == 503
        assert sum(each.done() for each in guesses) == 8
        hashing.may_end.set()
        found = [each.result() for each in guesses]
    assert sorted(each.status_code for each in found) == [401] * 16 + [503] * 8
    busy = next(each for each in found if each.status_code == 503)
    assert busy.headers["Retry-After"] == "2"
    assert "Too many passwords are being checked" in busy.text
    assert busy.headers["Content-Security-Policy"]


def test_hashing_pool_is_shared_with_the_api(client_at, http, hashing, configure):
    proxy = f"proxy: {{basic: {{password: '{HASH}'}}}}, "
    configure(YAML.replace("{admin:", f"{{{proxy}admin:"))
    hashing.may_end.clear()
    with ThreadPoolExecutor(16) as threads:
        guesses = [
            threads.submit(guess, client_at(f"127.0.1.{number}"), f"name-{number}")
            for number in range(16)
        ]
        until(lambda: len(passwords._hash_pool) == 16)
        refusal_page = http.get("/v1/models", headers=basic("ada", "x"))
        assert error(refusal_page, 503)["code"] == "password_checks_busy"
        hashing.may_end.set()
        assert {each.result().status_code for each in guesses} == {401}


def test_assets_need_no_password_check(http, hashing):
    for _ in range(9):
        headers = basic("admin", uuid.uuid4().hex)
        assert http.get(STYLES, headers=headers).status_code == 200
    assert hashing.computed == []
    assert guess(http).status_code == 401
    # One that is not there is no way in.
    missing = "/admin/static/nowhere.css"
    assert http.get(missing, headers=RIGHT).status_code == 401
    assert http.get("/admin/", headers=RIGHT).status_code == 200
    assert http.get(missing, headers=RIGHT).status_code == 404
    assert http.get("/admin/static/../", headers=basic("admin", "x")).status_code in (
        401,
        404,
    )


def test_sixth_failed_login_is_delayed(http, hashing, clock):
    assert [guess(http).status_code for _ in range(5)] == [401] * 5
    page = guess(http)
    assert (page.status_code, page.headers["Retry-After"]) == (429, "1")
    assert "Try again in 1 second" in page.text
    assert "WWW-Authenticate" not in page.headers
    data = http.get("/admin/", headers=basic("admin", "wrong"))
    assert error(data, 429)["code"] == "login_delayed"
    assert data.headers["Retry-After"] == "1"
    assert len(hashing.computed) == 5
    assert http.get("/admin/", headers=RIGHT).status_code == 429
    clock.now += 1
    assert http.get("/admin/", headers=RIGHT).status_code == 200


def test_verified_login_is_never_delayed(http):
    assert http.get("/admin/", headers=RIGHT).status_code == 200
    assert [guess(http).status_code for _ in range(6)][-1] == 429
    assert http.get("/admin/", headers=RIGHT).status_code == 200


def test_right_password_succeeds_during_an_attack(client_at, clock):
    """The honest client waits for Retry-After; 4 attackers never stop."""
    stop = threading.Event()

    def attack() -> None:
        attacker = client_at("127.0.0.2")
        while not stop.is_set():
            guess(attacker)

    with ThreadPoolExecutor(4) as threads:
        attacks = [threads.submit(attack) for _ in range(4)]
        try:
            until(lambda: guess(client_at("127.0.0.3")).status_code == 429)
            honest = client_at("127.0.0.4")
            for _ in range(12):
                response = honest.get("/admin/agents", headers=RIGHT)
                if response.status_code == 200:
                    break
                assert response.status_code == 429
                clock.now += float(response.headers["Retry-After"])
        finally:
            stop.set()
        assert response.status_code == 200
        assert honest.get("/admin/", headers=RIGHT).status_code == 200
        for each in attacks:
            each.result()


def test_home_page_reports_failed_logins(http, client_at):
    AuditEntry.objects.filter(action="login.fail").delete()  # of other tests
    name = f"name-{uuid.uuid4().hex[:8]}"
    stranger = client_at("127.0.0.2")
    assert [guess(stranger, name).status_code for _ in range(9)][-1] == 429
    message = f"5 failed sign-ins from 127.0.0.2 for name '{name}' in the last hour"

    def alert_messages() -> list[dict]:
        found = http.get("/admin/", headers=RIGHT).json()["alerts"]
        return [each for each in found if each["message"] == message]

    [alert] = until(alert_messages)
    assert alert["level"] == "warn"
    listed = http.get(alert["address"], headers=RIGHT).json()["data"]
    assert name in {each["details"]["name"] for each in listed}


def test_request_without_authentication_middleware_is_refused(configure):
    configure(YAML)
    request = RequestFactory().get("/admin/", headers=RIGHT)
    request.urlconf = "coulisse_site.studio_urls"
    response = access_middleware.AccessMiddleware(
        lambda _: pytest.fail("it was let in")
    )(request)
    assert response.status_code == 401
