"""Details for operators are in the log, not in responses."""

import re

import httpx2
import pytest

from config.errors import ConfigInvalid
from config.loading import loader
from core.errors import public_text
from tests.gateway import mcp_calls
from tests.gateway.calls import body, post, until
from tests.gateway.turns.test_turn_record import turns

pytestmark = pytest.mark.database

PRIVATE = re.compile(
    r"127\.0\.0\.1|localhost|nowhere\.invalid|:\d{4,5}\b"  # addresses
    r"|coulisse\.yaml|/tmp/|/work/|/no-such|\.py\b"  # files
    r"|\b[A-Z]{3,}_[A-Z_]{3,}"  # variables
    r"|\b(?:providers|server|auth|prices|telemetry|tasks|memory|limits|mcp|users|"
    r"triggers)[.:][a-z_ ]|base_url|api_key|_seconds\b(?!\W:)|max_body_bytes|`coulisse "
    r"|sk-(?!coulisse)\w"
)


def assert_public(text: str) -> None:
    assert PRIVATE.search(text) is None


PROVIDER = """
providers:
  main: {kind: openai, base_url: "ADDRESS", api_key: sk-x, retries: 0}
"""
YAML = f"""{PROVIDER}
server: {{max_body_bytes: 4096}}
agents: [{{name: assistant, provider: main, model: m}}]
tasks: {{enabled: false}}
triggers:
  - {{name: build, type: webhook, path: /hooks/build, agent: assistant, prompt: Hi,
      user: u, max_body_bytes: 1024}}
"""
DEAF = "http://127.0.0.1:9/v1"


@pytest.fixture
def served(running, configure):
    def served(text: str = YAML, address: str = DEAF) -> str:
        configure(text.replace("ADDRESS", address))
        return running

    return served


def chat(**more) -> dict:
    return {"json": body("somebody", **more)}


FAMILIES = [
    # method, path, content, status, log text
    ("POST", "/v1/chat/completions", chat(), 502, "check providers.main.base_url"),
    (
        "POST",
        "/v1/chat/completions",
        {"content": b" " * 5000, "headers": {"Content-Type": "application/json"}},
        413,
        "raise server.max_body_bytes",
    ),
    ("GET", "/v1/models", {"headers": {"Host": "evil.example"}}, 400, "allowed_hosts"),
    (
        "POST",
        "/v1/chat/completions",
        {
            "json": {
                "model": "assistant",
                "messages": [{"role": "user", "content": "a"}],
            }
        },
        400,
        "default_user_id",
    ),
    ("GET", "/v1/turns?safety_identifier=u", {}, 404, "sqlite.show_to_users"),
    (
        "POST",
        "/v1/tasks",
        {"json": {"agent": "assistant", "prompt": "a", "safety_identifier": "u"}},
        403,
        "tasks.enabled is false",
    ),
    (
        "POST",
        "/hooks/build",
        {"content": b" " * 2000},
        413,
        "raise this webhook's max_body_bytes",
    ),
    (
        "POST",
        "/hooks/build",
        {"json": {}, "headers": {"Origin": "https://evil.example"}},
        403,
        "server.allowed_hosts",
    ),
    (
        "POST",
        "/mcp",
        {"json": {}, "headers": {"Origin": "https://evil.example"}},
        403,
        "server.allowed_hosts",
    ),
    ("POST", "/mcp/main/oauth/link?user_id=u", {}, 503, ""),
]


@pytest.mark.parametrize(("method", "path", "sent", "status", "logged"), FAMILIES)
def test_error_details_are_only_in_the_log(
    served, caplog, method, path, sent, status, logged
):
    caplog.set_level("INFO")
    answer = httpx2.request(method, served() + path, verify=False, timeout=60, **sent)
    if status != 503:
        assert answer.status_code == status
    assert_public(answer.text)
    assert logged in caplog.text


def test_invalid_configuration_details_are_only_in_the_log(
    running, tmp_path, monkeypatch, caplog
):
    path = tmp_path / "coulisse.yaml"
    path.write_text("providers: {main: {kind: nonsense}}\nagents: []\n")
    with pytest.raises(ConfigInvalid) as refused:
        loader.load_file(path)

    def current() -> None:
        raise refused.value

    monkeypatch.setattr("config.live.current", current)
    for method, where in (
        ("POST", "/v1/chat/completions"),
        ("GET", "/v1/models"),
        ("POST", "/mcp"),
        ("POST", "/hooks/build"),
        ("GET", "/mcp/a/connect"),
    ):
        answer = httpx2.request(method, running + where, verify=False, timeout=60)
        assert answer.status_code in (400, 503)
        assert "nonsense" not in answer.text
        assert_public(answer.text)
    assert "nonsense" in caplog.text


BUDGET = "\nlimits: [{per: principal, usd_per_month: 5}]\n"


def test_missing_price_details_are_only_in_the_log(served, caplog):
    caplog.set_level("INFO")
    url = served(YAML + BUDGET)
    answer = post(url, body("somebody"))
    assert answer.json()["error"]["code"] == "price_unknown"
    assert_public(answer.text)
    assert "prices: in coulisse.yaml" in caplog.text


SERVERS = f"""{PROVIDER}
mcp:
  gone: {{command: /no-such/command, env: {{PRIVATE_KEY: of-a-child-3}}}}
  deaf: {{url: "http://127.0.0.1:9/mcp", oauth: false}}
agents:
  - name: assistant
    provider: main
    model: m
    mcp_tools: [{{server: gone}}, {{server: deaf}}]
"""


def test_unreachable_mcp_server_details_are_only_in_the_log(served, fake, user, caplog):
    url = served(SERVERS, fake.base_url)
    fake.call_tool("gone_unreachable", {})
    fake.reply("Done.")
    answer = post(url, body(user))
    assert answer.status_code == 200
    assert_public(answer.text)
    result = " ".join(
        [tool["function"]["description"] for tool in fake.requests[-1].body["tools"]]
        + [str(message["content"]) for message in fake.requests[-1].body["messages"]]
    )
    assert "'gone' cannot start" in result
    assert "'deaf' cannot be reached" in result, result
    assert_public(result)
    assert "'/no-such/command' is missing or not executable" in caplog.text


def test_turn_error_details_are_shown_only_to_operators(served, user):
    url = served(YAML + "telemetry: {sqlite: {show_to_users: true}}\n")
    post(url, body(user))
    until(lambda: turns(user))
    (turn,) = turns(user)
    assert "check providers.main.base_url" in turn.error
    who = {"params": {"safety_identifier": user}, "verify": False, "timeout": 60}
    for path in ("/v1/turns", f"/v1/turns/{turn.pk}", "/v1/users/me/export"):
        answer = httpx2.get(url + path, **who)
        assert public_text(turn.error) in answer.text
        assert_public(answer.text)
    shown = httpx2.get(f"{url}/admin/turns/{turn.pk}?format=json", verify=False)
    assert "check providers.main.base_url" in shown.text


def test_mcp_turn_error_details_are_only_in_the_log(served, user, caplog):
    result = mcp_calls.ask(served(), user, "hi")
    assert result.is_error
    text = result.content[0].text
    assert "provider 'main' cannot be reached" in text
    assert_public(text)
    assert "check providers.main.base_url" in caplog.text
