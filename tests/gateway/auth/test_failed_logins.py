"""Delays after failed sign-ins at `/v1`, `/mcp` and the sign-in links."""

import uuid

import httpx2
import pytest

from access.authentication import basic_auth as passwords
from access.authentication import login_throttle
from access.models import AuditEntry
from access.tokens import api_tokens, token_secrets
from tests.access.actors import ADA
from tests.access.clock import Clock
from tests.conftest import CONFIG
from tests.gateway import mcp_calls
from tests.gateway.calls import basic, bearer, error, until

pytestmark = pytest.mark.database

HASH = "pbkdf2_sha256$1$salt$" + "A" * 43 + "="
YAML = (
    CONFIG
    + """
auth:
  mcp_consumer_secret: secret-of-the-backend
  proxy:
    basic:
      - {username: ada, password: password-of-ada}
      - {username: bob, password: 'HASH'}
""".replace("HASH", HASH)
)
RIGHT = basic("ada", "password-of-ada")


@pytest.fixture
def clock(monkeypatch) -> Clock:
    clock = Clock()
    for throttle in (login_throttle.API_THROTTLE, login_throttle.CONSUMER_THROTTLE):
        monkeypatch.setattr(throttle, "clock", clock)
    return clock


@pytest.fixture
def computed(monkeypatch) -> list[str]:
    """The passwords whose hashes are computed; all are wrong."""
    computed: list[str] = []
    monkeypatch.setattr(
        passwords.hashers,
        "check_password",
        lambda given, _: bool(computed.append(given)),
    )
    return computed


@pytest.fixture
def client_at(running):
    """Return clients by their address on this machine."""
    opened = []

    def client_at(address: str) -> httpx2.Client:
        transport = httpx2.HTTPTransport(local_address=address, verify=False)
        opened.append(httpx2.Client(base_url=running, timeout=60, transport=transport))
        return opened[-1]

    yield client_at
    for client in opened:
        client.close()


@pytest.fixture
def http(client_at, configure, clock) -> httpx2.Client:
    configure(YAML)
    return client_at("127.0.0.1")


def guess(http: httpx2.Client, name: str = "ada", times: int = 1) -> list[int]:
    """Send different wrong passwords; return the statuses."""
    return [
        http.get("/v1/models", headers=basic(name, uuid.uuid4().hex)).status_code
        for _ in range(times)
    ]


def test_sixth_failed_login_is_delayed(http, clock, computed):
    assert guess(http, times=7) == [401] * 5 + [429] * 2
    assert len(computed) == 5
    answer = http.get("/v1/models", headers=RIGHT)
    refusal = error(answer, 429)
    assert refusal["code"] == "login_delayed"
    assert refusal["message"] == "Too many sign-ins failed. Try again in 1 second"
    assert answer.headers["Retry-After"] == "1"
    clock.now += 1
    assert guess(http, times=2) == [401, 429]
    answer = http.get("/v1/models", headers=RIGHT)
    assert answer.headers["Retry-After"] == "2"
    clock.now += 2
    assert http.get("/v1/models", headers=RIGHT).status_code == 200
    assert len(computed) == 6


def test_longest_delay_is_not_retryable(http, clock):
    for _ in range(16):
        guess(http)
        clock.now += 300
    answer = http.get("/v1/models", headers=RIGHT)
    assert answer.status_code == 200
    clock.now += 300
    guess(http)
    answer = http.get("/v1/models", headers=basic("ada", "wrong"))
    assert answer.headers["Retry-After"] == "300"
    # OpenAI's clients would retry at once.
    assert answer.headers["X-Should-Retry"] == "false"


def test_verified_login_is_never_delayed(http, client_at):
    assert http.get("/v1/models", headers=RIGHT).status_code == 200
    assert guess(http, times=9)[-1] == 429
    assert http.get("/v1/models", headers=RIGHT).status_code == 200
    # At other addresses the response would confirm the guess.
    stranger = client_at("127.0.0.2")
    assert guess(stranger, "eve", times=6)[-1] == 429
    assert stranger.get("/v1/models", headers=RIGHT).status_code == 429


def test_username_is_delayed_across_addresses(http, client_at, clock):
    other = client_at("127.0.0.2")
    assert other.get("/v1/models", headers=RIGHT).status_code == 200
    assert guess(http, times=5) == [401] * 5
    assert guess(client_at("127.0.0.3")) == [429]
    assert guess(client_at("127.0.0.3"), "carl") == [401]
    # This one has signed in with the name before.
    assert guess(other) == [401]
    clock.now += login_throttle.FORGET_SECONDS
    assert guess(client_at("127.0.0.4")) == [401]


def test_unknown_username_is_delayed_like_a_known_one(http, client_at, computed):
    for number, name in enumerate(("ada", "bob", "eve"), 2):
        assert guess(client_at(f"127.0.0.{number}"), name, 6) == [401] * 5 + [429], name
    assert len(computed) == 15


def test_mcp_failed_logins_are_delayed(http):
    def call() -> httpx2.Response:
        headers = basic("ada", uuid.uuid4().hex)
        return http.post("/mcp", json=mcp_calls.rpc("tools/list"), headers=headers)

    assert [call().status_code for _ in range(5)] == [401] * 5
    answer = call()
    assert answer.status_code == 429
    assert answer.headers["Retry-After"] == "1"
    assert answer.json()["error"]["data"]["code"] == "login_delayed"
    assert guess(http) == [429]


def test_backend_secret_failures_are_delayed(http, client_at, clock):
    def ask(http: httpx2.Client, secret: str) -> httpx2.Response:
        path = "/mcp/nowhere/connect-link?user_id=ada"
        return http.post(path, headers=bearer(secret))

    other = client_at("127.0.0.2")
    assert ask(other, "secret-of-the-backend").status_code == 404
    for client in (http, other):
        for number in range(5):
            assert ask(client, f"guess-{number}").status_code == 401
        answer = ask(client, "guess")
        assert error(answer, 429)["code"] == "login_delayed"
        assert answer.headers["Retry-After"] == "1"
    assert ask(http, "secret-of-the-backend").status_code == 429
    assert ask(other, "secret-of-the-backend").status_code == 404
    clock.now += 1
    assert ask(http, "secret-of-the-backend").status_code == 404
    # It has its own throttle.
    assert guess(http) == [401]


def test_api_token_failures_are_not_delayed(http, configure):
    configure(CONFIG + "auth: {proxy: {tokens: {}}}\n")
    for number in range(8):
        wrong = bearer(f"{token_secrets.PREFIX}{number:043}")
        assert http.get("/v1/models", headers=wrong).status_code == 401
    _, secret = api_tokens.create_token("test", "somebody", by=ADA)
    assert http.get("/v1/models", headers=bearer(secret)).status_code == 200


def test_full_hash_queue_is_503(http, monkeypatch):
    monkeypatch.setattr(passwords, "MAX_PENDING_HASHES", 0)
    for _ in range(7):
        answer = http.get("/v1/models", headers=basic("bob", uuid.uuid4().hex))
        assert error(answer, 503)["code"] == "password_checks_busy"
        assert answer.headers["Retry-After"] == "2"


def test_failure_burst_is_one_audit_entry(http, caplog):
    name = f"name-{uuid.uuid4().hex}"
    assert guess(http, name, 12)[-1] == 429
    found = AuditEntry.objects.filter(action="login.fail", details__name=name)
    until(found.exists)
    [entry] = found
    assert (entry.target, entry.origin) == ("/v1", "127.0.0.1")
    assert entry.request_id.startswith("req_")
    lines = [each for each in caplog.records if name in each.getMessage()]
    assert [each.name for each in lines] == ["access.authentication.failed_logins"]
