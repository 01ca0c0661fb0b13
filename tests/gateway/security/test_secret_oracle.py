"""Responses do not reveal whether a request contains a secret of the server.

Each request is sent twice: with a secret, and with a decoy of the same format. Both
responses must be equal, apart from the text itself.
"""

import json
import re
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import httpx2
import pytest
from django.conf import settings

from core.text import redaction
from coulisse_site.asgi import application
from tests.gateway.calls import basic, body, post, until, user_message
from tests.gateway.turns.test_turn_record import turns

pytestmark = pytest.mark.database
OURS = f"{settings.BASE_DIR}/"

STRONG = "q7Vd2mXw9Lr4TzK8bNf3HcYs"
SECRETS = {
    "password": "hunter22hunter22",
    "webhook secret": "correct-horse-battery-staple",
    "consumer secret": "consumer-of-ours-1984",
    "provider key": "sk-local-1",
    "mcp variable": "MeinHundHeisstRexUndIstLieb",
    "mcp header": "team-header-12345678",
    "provider header": "Summer2024Winter2025",
    "strong key": STRONG,
}
GUESSABLE = [name for name in SECRETS if name != "strong key"]
YAML = """
providers:
  openai:
    api_key: {provider key}
    base_url: FAKE/v1
    headers: {{X-Api-Token: "{provider header}", X-Key: "{strong key}"}}
    retries: 0
agents:
  - {{name: assistant, provider: openai, model: gpt-test}}
  - {{name: boss, provider: openai, model: gpt-test, subagents: [assistant]}}
mcp:
  unused: {{command: "true", env: {{API_KEY: "{mcp variable}"}}}}
  other: {{url: "http://127.0.0.1:9", headers: {{X-Api-Key: "{mcp header}"}}}}
triggers:
  - {{name: build, type: webhook, path: /hooks/build, agent: assistant, prompt: Hi,
      user: u, secret: "{webhook secret}"}}
public_base_url: http://localhost:8421
auth:
  mcp_consumer_secret: "{consumer secret}"
  admin: {{basic: {{username: ada, password: "{password}"}}}}
telemetry: {{sqlite: {{show_to_users: true}}}}
"""
LOGIN = basic("ada", SECRETS["password"])
PAGE = {"Accept": "text/html"}


@pytest.fixture(autouse=True)
def _configured(server, configure, monkeypatch):
    monkeypatch.setattr(redaction, "_known_secrets", {})
    monkeypatch.setattr(redaction, "_longest_first", ())
    configure(YAML.format(**SECRETS).replace("FAKE", "{fake}"))


DECOYS = {
    "password": "winter33winter33",
    "webhook secret": "perfect-mouse-lottery-simple",
    "consumer secret": "customer-of-mine-1977",
    "provider key": "sk-other-2",
    "mcp variable": "DeinKindHeisstTomUndIstLieb",
    "mcp header": "work-folder-87654321",
    "provider header": "Winter2031Summer2030",
    "strong key": "t9Xf4oZy1Nt6VbM2dPh5JeAu",
}
"""The decoys: texts in the same format that are not secrets."""


CHANGES = re.compile(
    r"[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}|(?:chatcmpl-|req_|call_)\w+"
    r"|\d{4}-\d\d-\d\d[T ]\d\d:\d\d[\d:.Z]*|\"(?:created|seconds|latency)\": ?[\d.]+"
    r"|nonce=\"[^\"]*\"|csrf\w*\W+(?:value=)?\W*\w{20,}"
)
"""Values that differ between two responses to the same request."""


def visible(answer: httpx2.Response, sent: str) -> tuple[int, str, str | None]:
    """Return the visible parts of a response, without the sent text."""
    text = CHANGES.sub("·", answer.text).replace(sent, "SENT")
    for start in range(8, len(sent)):
        # A text that is cut at 100 characters lacks its end.
        text = text.replace(f"{sent[:start]}…", "SENT…")
    return answer.status_code, text, answer.headers.get("content-type")


Send = Callable[[str, str], httpx2.Response]


def get(path: str, **headers: str) -> Send:
    named = {name.replace("_", "-"): value for name, value in headers.items()}

    def send(server: str, text: str) -> httpx2.Response:
        given = {name: value.format(text) for name, value in named.items()}
        url = server + path.format(text)
        return httpx2.get(url, headers=given, verify=False, timeout=60)

    return send


def send_json(path: str, shape: Any, **headers: str) -> Send:
    named = {name.replace("_", "-"): value for name, value in headers.items()}

    def send(server: str, text: str) -> httpx2.Response:
        given = {name: value.format(text) for name, value in named.items()}
        content = json.dumps(shape).replace("TEXT", text)
        given = {"Content-Type": "application/json", **given}
        url = server + path.format(text)
        return httpx2.post(
            url, content=content, headers=given, verify=False, timeout=60
        )

    return send


CHAT = "/v1/chat/completions"
HI = {"messages": [user_message("hi")], "safety_identifier": "u", "model": "assistant"}
TOOL = {"type": "function", "function": {"name": "TEXT"}}
OTHER_TOOL = {"type": "function", "function": {"name": "other"}}
ACCEPTS = "application/json, text/event-stream"


def mcp(method: str, params: dict[str, Any], **headers: str) -> Send:
    message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
    headers = {"X_Coulisse_User": "u", **headers}
    return send_json("/mcp", message, Accept=ACCEPTS, **headers)


REQUESTS: dict[str, Send] = {
    "path": get("/v1/{}"),
    "path of nothing": get("/nowhere/{}/and/more"),
    "path of a model": get("/v1/models/{}"),
    "path of a hook": send_json("/hooks/{}", {}),
    "path of a server": send_json("/mcp/{}/oauth/link?user_id=u", {}),
    "name in the query": get("/v1/memories?{}=1"),
    "user in the query": get("/v1/memories?safety_identifier={}"),
    "value in the query": get("/v1/memories?safety_identifier=u&after={}"),
    "limit in the query": get("/v1/turns?safety_identifier=u&limit={}"),
    "Host": get("/v1/models", Host="{}.example"),
    "Origin at /mcp": send_json("/mcp", {}, Origin="https://{}.example"),
    "Origin at /admin": get("/admin/", Origin="https://{}.example", **LOGIN),
    "X-Request-Id": get("/v1/models", X_Request_Id="{}"),
    "X-Coulisse-User": get("/v1/memories", X_Coulisse_User="{}"),
    "Authorization": get("/v1/models", Authorization="Bearer {}"),
    "login of the studio": get("/admin/", Authorization="Basic {}"),
    "bearer of a hook": send_json("/hooks/none", {}, Authorization="Bearer {}"),
    "model": send_json(CHAT, {**HI, "model": "TEXT"}),
    "model that is long": send_json(CHAT, {**HI, "model": "x" * 90 + "TEXT" + "y" * 9}),
    "key of the body": send_json(CHAT, {**HI, "TEXT": 1}),
    "key within": send_json(
        CHAT, {**HI, "messages": [{**user_message("a"), "TEXT": 1}]}
    ),
    "role": send_json(
        CHAT, {**HI, "messages": [{**user_message("a"), "role": "TEXT"}]}
    ),
    "type of a part": send_json(
        CHAT, {**HI, "messages": [user_message([{"type": "TEXT"}])]}
    ),
    "number": send_json(CHAT, {**HI, "temperature": "TEXT"}),
    "service tier": send_json(CHAT, {**HI, "service_tier": "TEXT"}),
    "time zone": send_json(CHAT, {**HI, "metadata": {"timezone": "TEXT"}}),
    "language": send_json(CHAT, {**HI, "metadata": {"language": "TEXT"}}),
    "memory": send_json(CHAT, {**HI, "metadata": {"memory": "TEXT"}}),
    "twice the tool": send_json(CHAT, {**HI, "tools": [TOOL, TOOL]}),
    "choice of a tool": send_json(
        CHAT, {**HI, "tools": [OTHER_TOOL], "tool_choice": TOOL}
    ),
    "name of a schema": send_json(
        CHAT,
        {
            **HI,
            "response_format": {
                "type": "json_schema",
                "json_schema": {"name": "a", "schema": {"type": "TEXT"}},
            },
        },
    ),
    "not JSON": send_json(CHAT, "TEXT"),
    "agent of a task": send_json(
        "/v1/tasks", {"agent": "TEXT", "prompt": "a", "safety_identifier": "u"}
    ),
    "category": send_json(
        "/v1/memories", {"content": "a", "category": "TEXT", "safety_identifier": "u"}
    ),
    "tool at /mcp": mcp("tools/call", {"name": "TEXT", "arguments": {}}),
    "argument at /mcp": mcp(
        "tools/call", {"name": "assistant", "arguments": {"TEXT": 1}}
    ),
    "thread at /mcp": mcp(
        "tools/call",
        {"name": "assistant", "arguments": {"message": "", "thread_id": "TEXT"}},
    ),
    "method at /mcp": mcp("TEXT", {}),
    "version at /mcp": mcp("tools/list", {}, MCP_Protocol_Version="{}"),
    "studio without login": get("/admin/{}", **PAGE),
    "studio": get("/admin/{}", **LOGIN),
    "page of the studio": get("/admin/{}", **LOGIN, **PAGE),
    "agent in the studio": get("/admin/agents/{}", **LOGIN),
    "filter in the studio": get("/admin/turns?outcome={}", **LOGIN),
    "search in the studio": get("/admin/facts?q={0}&user={0}", **LOGIN),
    "edit in the studio": send_json(
        "/admin/agents", {"name": "a", "TEXT": "TEXT", "model": "TEXT"}, **LOGIN
    ),
    "yaml in the studio": send_json("/admin/config/validate", {"TEXT": 1}, **LOGIN),
}


@pytest.mark.parametrize("name", SECRETS)
@pytest.mark.parametrize("request_", REQUESTS)
def test_response_is_equal_for_secret_and_decoy(server, request_, name):
    send = REQUESTS[request_]
    texts = (SECRETS[name], DECOYS[name], SECRETS[name])
    answers = [visible(send(server, text), text) for text in texts]
    assert answers[0] == answers[1]
    assert answers[0] == answers[2]
    if name in GUESSABLE:
        assert "[redacted]" not in answers[0][1]


ANSWERS = ("provider's refusal", "reply", "stream", "tool")


@pytest.mark.parametrize("name", SECRETS)
@pytest.mark.parametrize("way", ANSWERS)
def test_repeated_secret_and_decoy_give_equal_responses(server, fake, user, way, name):
    def ask(text: str) -> tuple[int, str, str | None]:
        if way == "provider's refusal":
            fake.fail(400, f"not allowed: {text}!")
        elif way == "tool":
            fake.call_tool("assistant", {"message": text})
            fake.reply(f"It is {text}.")
        if way != "provider's refusal":
            fake.reply(f"I heard {text}.")
        agent = "boss" if way == "tool" else "assistant"
        request = body(f"{user}-{len(fake.requests)}", text, agent=agent)
        answer = post(server, {**request, "stream": way == "stream"})
        return visible(answer, text)

    found = [ask(text) for text in (SECRETS[name], DECOYS[name])]
    assert found[0] == found[1]


@pytest.mark.parametrize("name", GUESSABLE)
def test_stored_guessable_secret_and_decoy_look_equal(server, fake, user, name):
    def shown(who: str, text: str) -> list[Any]:
        fake.reply(f"I heard {text}.")
        post(server, body(who, f"a {text} b"))
        until(lambda: turns(who))
        (turn,) = turns(who)
        query = f"?safety_identifier={who}"
        paths = [f"/v1/turns{query}", f"/v1/turns/{turn.pk}{query}"]
        answers = [httpx2.get(server + path, verify=False) for path in paths]
        page = httpx2.get(
            f"{server}/admin/turns/{turn.pk}", headers=LOGIN, verify=False
        )
        assert text in answers[0].text
        assert text in page.text
        return [visible(each, text)[:2] for each in answers]

    def without_figures(found: list[Any]) -> list[Any]:
        return [(status, re.sub(r"[\d.]+", "0", text)) for status, text in found]

    first = shown(f"{user}-a", SECRETS[name])
    second = shown(f"{user}-b", DECOYS[name])
    unnamed = [
        [(status, text.replace(who, "WHO")) for status, text in found]
        for found, who in ((first, f"{user}-a"), (second, f"{user}-b"))
    ]
    assert without_figures(unnamed[0]) == without_figures(unnamed[1])


def test_guessable_secrets_are_not_redacted():
    assert STRONG in redaction._known_secrets
    for name in GUESSABLE:
        assert not any(SECRETS[name] in known for known in redaction._known_secrets)
        assert redaction.redact_own(SECRETS[name]) == SECRETS[name]


# Timing leaks, too. Steps are counted: they do not depend on the machine.

COUNTED: dict[str, tuple[str, dict[str, str], Any]] = {
    "path": ("/v1/models/TEXT", {}, None),
    "query": ("/v1/memories?safety_identifier=u&after=TEXT", {}, None),
    "Host": ("/v1/models", {"Host": "TEXT.example"}, None),
    "user": ("/v1/models", {"X-Coulisse-User": "TEXT"}, None),
    "Authorization": ("/v1/models", {"Authorization": "Bearer TEXT"}, None),
    "model": (CHAT, {}, {**HI, "model": "TEXT"}),
    "key of the body": (CHAT, {}, {**HI, "TEXT": 1}),
    "webhook": ("/hooks/other", {"Authorization": "Bearer TEXT"}, {}),
    "mcp": ("/mcp", {"X-Coulisse-User": "u"}, {"method": "TEXT", "id": 1}),
}


async def steps(path: str, headers: dict[str, str], shape: Any, text: str) -> int:
    """Return how many of the server's functions a request calls."""
    called = 0

    def count(frame: FrameType, event: str, _: Any) -> None:
        nonlocal called
        file = frame.f_code.co_filename
        called += event == "call" and file.startswith(OURS) and "/.venv/" not in file

    content = None if shape is None else json.dumps(shape).replace("TEXT", text)
    given = {name: value.replace("TEXT", text) for name, value in headers.items()}
    if content is not None:
        given["Content-Type"] = "application/json"
    transport = httpx2.ASGITransport(app=application)
    async with httpx2.AsyncClient(transport=transport, base_url="http://here") as here:
        asking = here.build_request(
            "GET" if content is None else "POST",
            path.replace("TEXT", text),
            headers=given,
            content=content,
        )
        sys.setprofile(count)
        try:
            await here.send(asking)
        finally:
            sys.setprofile(None)
    return called


@pytest.mark.parametrize("name", GUESSABLE)
@pytest.mark.parametrize("where", COUNTED)
async def test_redaction_takes_equal_steps(where, name):
    await steps(*COUNTED[where], DECOYS[name][::-1])  # Fill the caches first.
    found = [await steps(*COUNTED[where], text[name]) for text in (SECRETS, DECOYS)]
    assert found[0] == found[1] > 10
