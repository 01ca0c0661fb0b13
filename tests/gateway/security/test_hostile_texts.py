"""A megabyte of each pattern's slowest input, at every entry point, blocks nothing.

The tests measure CPU time, because other processes may be busy: the time until another
thread of the process runs, and the time of one step of the event loop.
"""

import asyncio
import contextlib
import json
import socket
import threading
import time
from collections.abc import Iterator
from urllib.parse import quote, urlsplit

import httpx2
import pytest
from mcp.server.mcpserver import MCPServer

from tests import growth
from tests.conftest import CONFIG, serve
from tests.gateway.mcp_calls import call
from tests.patterns.pattern_cases import PROVEN
from tests.triggers.trigger_yaml import hook, unique

pytestmark = pytest.mark.database

SIZE = 1_000_000
SECTION = SIZE // 16
"""Characters of a worst case: 60,000 once blocked the server for seconds."""
MOST_FROZEN = 1.5
"""The maximum CPU seconds without another thread or step of the event loop."""
MOST_TAKEN = 20.0
"""The maximum CPU seconds of a request; the studio needs four for 20,000 values."""

WHOLE = {
    "addresses": "https://",
    "options": "-key",
    "parameters": "-.",
    "tokens": "eyJ-",
    "placeholders": "${",
    "comments": "# -",
    "fences": "```",
    "ligatures": "\ufdfa",
    "spaced": "i g n o r e ",
    "braces": "{{",
    "brackets": "[",
}


def sections(package: str = "") -> Iterator[tuple[str, str]]:
    """Yield texts that each combine worst cases of a package's patterns."""
    texts = dict.fromkeys(
        ("", text, "") if isinstance(text, str) else text
        for name, case in PROVEN.items()
        for text in case.texts
        if name.startswith(package)
    )
    parts = [growth.build_text(*text, SECTION) for text in texts]
    for n in range(0, len(parts), 16):
        yield f"{package}sections {n}", "\n".join(parts[n : n + 16])[:SIZE]


BEFORE = "=?secret"
"""Redaction runs its patterns only on texts with these words."""
TEXTS = {
    name: growth.build_text(BEFORE, text, "", SIZE) for name, text in WHOLE.items()
}
TEXTS |= dict(sections())
TEXTS = {
    # The largest accepted size: the limit is 2 MB of JSON.
    name: text if text.isascii() else text[: SIZE // 2]
    for name, text in TEXTS.items()
}


class Watch:
    """The CPU seconds that block other threads and event loop steps."""

    def __init__(self) -> None:
        self.frozen = self.longest_step = 0.0
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._tick)

    def _tick(self) -> None:
        before = time.process_time()
        while not self._ended.wait(0.005):
            now = time.process_time()
            self.frozen = max(self.frozen, now - before)
            before = now

    def __enter__(self) -> "Watch":
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._ended.set()
        self._thread.join()


@pytest.fixture
def watch(monkeypatch: pytest.MonkeyPatch) -> Iterator[Watch]:
    watch = Watch()
    run = asyncio.events.Handle._run

    def measured(handle: asyncio.Handle) -> None:
        started = time.thread_time()
        run(handle)
        watch.longest_step = max(watch.longest_step, time.thread_time() - started)

    monkeypatch.setattr(asyncio.events.Handle, "_run", measured)
    with watch:
        yield watch


@pytest.fixture
def path(configure, monkeypatch) -> str:
    """The path of a webhook, on a server with all features that accept text."""
    path = f"/hooks/{unique('hook')}"
    memory = "\nmemory: {user_state: {embed_with: {provider: hash}}}\n"
    entry = hook(unique("hook"), path, "max_body_bytes: 2000000")
    configure(f"{CONFIG}{memory}\ntriggers:\n  - {{{entry}}}\n")
    return path


def sent(http: httpx2.Client, method: str, path: str, **more) -> None:
    """Send a request; it may be refused, but must not fail or take long."""
    started = time.process_time()
    # The HTTP parser may close the connection for too large requests.
    with contextlib.suppress(httpx2.RemoteProtocolError, httpx2.NetworkError):
        answer = http.request(method, path, timeout=300, **more)
        assert answer.status_code < 500 or answer.status_code in (502, 503), (
            answer.text[:500]
        )
    assert time.process_time() - started < MOST_TAKEN
    assert http.get("/health/live").status_code == 200


def assert_nothing_froze(watch: Watch) -> None:
    assert watch.frozen < MOST_FROZEN
    assert watch.longest_step < MOST_FROZEN


HEADERS = (
    "Host",
    "Origin",
    "Authorization",
    "X-Coulisse-User",
    "X-Request-Id",
    "Cookie",
    "Accept",
    "Accept-Language",
    "Content-Type",
    "X-Forwarded-For",
    "X-Coulisse-Thread",
    "If-None-Match",
    "Traceparent",
    "User-Agent",
)


def heads(text: str) -> Iterator[str]:
    """Yield request heads with a text in each possible place."""
    plain = "".join(c for c in text if c.isascii() and c.isprintable())
    coded, spaceless = quote(plain), plain.replace(" ", "+")
    for path in (
        "/v1/",
        "/v1/models/",
        "/hooks/",
        "/admin/",
        "/admin/turns?user=",
        "/?",
    ):
        yield f"GET {path}{coded} HTTP/1.1\r\nHost: localhost"
        yield f"GET {path}{spaceless} HTTP/1.1\r\nHost: localhost"
    for header in HEADERS:
        host = "" if header == "Host" else "\r\nHost: localhost"
        for path in ("/v1/models", "/admin/config"):
            yield f"GET {path} HTTP/1.1\r\n{header}: {plain}{host}"


def exchanged(server: str, head: str) -> bytes:
    """Return the status line of a response; empty if the server disconnects."""
    parts = urlsplit(server)
    request = f"{head}\r\nConnection: close\r\n\r\n".encode()
    with (
        contextlib.suppress(ConnectionError),
        socket.create_connection((parts.hostname, parts.port), timeout=300) as sent,
    ):
        sent.sendall(request)
        return sent.recv(4096).partition(b"\r\n")[0]
    return b""


@pytest.mark.parametrize("name", TEXTS)
def test_request_heads_do_not_stall_the_server(server, http, watch, name):
    for size in (SECTION, SIZE):
        for head in heads(TEXTS[name][:size]):
            started = time.process_time()
            status = exchanged(server, head)
            assert b" 500 " not in status
            assert time.process_time() - started < MOST_TAKEN
        assert http.get("/health/live").status_code == 200
    assert_nothing_froze(watch)


def chats(text: str, user: str) -> Iterator[dict]:
    """Yield chat bodies with a text in each possible place."""
    message = {"role": "user", "content": text}
    whole = {"model": "assistant", "messages": [message], "safety_identifier": user}
    plain = {**whole, "messages": [{"role": "user", "content": "hi"}]}
    yield whole
    yield {**plain, "model": text}
    yield {**plain, "safety_identifier": text}
    yield {**plain, "metadata": {"thread_id": text, text[:60]: text}}
    yield {**plain, "stop": text, "user": text, "reasoning_effort": text}
    tool = {"name": text, "description": text, "parameters": {"type": "object"}}
    yield {**plain, "tools": [{"type": "function", "function": tool}]}
    tool["name"] = "look"
    yield {**plain, "tools": [{"type": "function", "function": tool}]}
    called = {"id": text, "type": "function"}
    called["function"] = {"name": "look", "arguments": text}
    result = {"role": "tool", "tool_call_id": text, "content": text}
    calls = {"role": "assistant", "content": None, "tool_calls": [called]}
    yield {**plain, "messages": [message, calls, result]}
    long_head = f"data:image/png{';a' * (len(text) // 2)};base64,iVBORw0KGgo="
    urls = (f"data:image/png;base64,{text}", f"https://{text}", text, long_head)
    for url in urls:
        part = {"type": "image_url", "image_url": {"url": url}}
        for agent in ("assistant", "claude"):
            messages = [{"role": "user", "content": [part]}]
            yield {**plain, "model": agent, "messages": messages}


@pytest.mark.parametrize("name", TEXTS)
def test_chats_do_not_stall_the_server(http, path, user, fake, watch, name):
    for body in chats(TEXTS[name][: SIZE // 2], user):
        sent(http, "POST", "/v1/chat/completions", json=body)
    fake.reply(TEXTS[name])
    body = {"model": "assistant", "messages": [{"role": "user", "content": "hi"}]}
    shape = {"type": "json_schema", "json_schema": {"name": "n", "schema": {}}}
    sent(http, "POST", "/v1/chat/completions", json={**body, "user": user})
    fake.reply(TEXTS[name])
    formed = {**body, "user": user, "response_format": shape}
    sent(http, "POST", "/v1/chat/completions", json=formed)
    fake.call_tool(TEXTS[name][:1000], {"a": TEXTS[name]})
    sent(http, "POST", "/v1/chat/completions", json={**body, "user": user})
    fake.fail(400, body={"error": {"message": TEXTS[name]}})
    sent(http, "POST", "/v1/chat/completions", json={**body, "user": user})
    assert_nothing_froze(watch)


@pytest.mark.parametrize("name", TEXTS)
def test_other_bodies_do_not_stall_the_server(http, path, user, watch, name):
    text = TEXTS[name]
    named = {"X-Coulisse-User": user}
    for body in (
        {"content": text},
        {"content": text[:2000]},
        {"content": "x", "key": text},
        {"content": "x", "category": text},
    ):
        sent(http, "POST", "/v1/memories", json=body, headers=named)
    for query in (text, text[:4000]):
        sent(http, "POST", "/v1/memories/search", json={"query": query}, headers=named)
    for rpc in (call(text), call("search_memory", query=text), call("ask", text=text)):
        sent(http, "POST", "/mcp", json=rpc, headers=named)
    for body in ({"say": text}, {text: 1}, [text]):
        sent(http, "POST", path, json=body)
    sent(http, "POST", path, content=text.encode())
    for field in ("label", "principal", "expires", "limit_usd"):
        form = {"label": "x", "principal": "x", field: text}
        sent(http, "POST", "/admin/tokens", json=form)
    requested = {"agent": "assistant", "message": text, "user": user}
    sent(http, "POST", "/admin/playground/turns", json=requested)
    assert_nothing_froze(watch)


def files(text: str) -> Iterator[str]:
    line = " ".join(text.split())
    yield text
    yield f"vars: {json.dumps({'a': line})}\n"
    yield f"vars:\n  a: {line}\n"
    yield f"vars: {{a: b}}\n# {line}\n"
    yield f"agents:\n  - name: a\n    preamble: |\n      {line}\n"


FILES = {name: TEXTS[name] for name in WHOLE} | dict(sections("config."))


@pytest.mark.parametrize("name", FILES)
def test_editor_files_do_not_stall_the_server(http, path, watch, name):
    for content in files(FILES[name][: SIZE // 4]):
        sent(http, "POST", "/admin/config/check", json={"yaml": content})
    placed = {"yaml": FILES[name][: SIZE // 4], "at": "agents/assistant"}
    sent(http, "POST", "/admin/config/check", json=placed)
    assert_nothing_froze(watch)


@pytest.fixture
def tools(configure, monkeypatch, fake) -> Iterator[dict[str, str]]:
    """The result of the MCP tool `tell`."""
    texts = {"told": ""}
    mcp = MCPServer("teller")

    @mcp.tool()
    def return_text() -> str:
        """Return the text."""
        return texts["told"]

    application = mcp.streamable_http_app(json_response=True, stateless_http=True)
    with serve(application) as url:
        agent = "{name: helper, provider: openai, model: m, mcp_tools: [{server: t}]}"
        with_tools = CONFIG.replace("agents:\n", f"agents:\n  - {agent}\n")
        mcp_entry = f"\nmcp: {{t: {{url: '{url}/mcp', oauth: false}}}}\n"
        configure(with_tools + mcp_entry)
        yield texts


def test_tool_results_do_not_stall_the_server(http, tools, user, fake, watch):
    for text in TEXTS.values():
        tools["told"] = text
        fake.call_tool("t__tell", {})
        fake.reply("done")
        message = [{"role": "user", "content": "hi"}]
        body = {"model": "helper", "messages": message, "safety_identifier": user}
        sent(http, "POST", "/v1/chat/completions", json=body)
    assert_nothing_froze(watch)
