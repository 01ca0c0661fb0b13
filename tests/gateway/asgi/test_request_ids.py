"""Request ids in responses, logs and records."""

import asyncio
import json
import logging
import re
import socket
from collections.abc import Callable, Iterator
from io import StringIO
from typing import Any
from urllib.parse import urlsplit

import httpx2
import pytest

from core.runtime import request_ids
from database import database_executor
from telemetry.log_output import formatters
from tests.gateway.calls import ask, body, error, frames, post, until
from tests.gateway.turns.test_turn_record import load_turn

pytestmark = pytest.mark.database

MADE = re.compile(r"req_[0-9a-f]{32}")
NAMED = {"X-Request-Id": "checkout-7"}


@pytest.fixture
def logged() -> Iterator[Callable[[], list[dict[str, Any]]]]:
    """The server's log lines from now on, parsed as JSON."""
    written = StringIO()
    handler = logging.StreamHandler(written)
    handler.setFormatter(formatters.JsonFormatter())
    root = logging.getLogger()
    root.addHandler(handler)
    yield lambda: [json.loads(line) for line in written.getvalue().splitlines()]
    root.removeHandler(handler)


def sent(response: httpx2.Response) -> str:
    [name] = response.headers.get_list("x-request-id")
    return str(name)


# The answers.

REQUESTS = [
    ("GET", "/v1/models", 200),
    ("GET", "/health/live", 200),
    ("GET", "/health/ready", 200),
    ("GET", "/nowhere", 404),
    ("GET", "/v1/nowhere", 404),
    ("GET", "/%ff", 404),
    ("DELETE", "/v1/models", 405),
    ("POST", "/v1/chat/completions", 400),
    ("GET", "/mcp", 405),
    ("POST", "/mcp", 400),
    ("GET", "/mcp/connect?link=none", None),
]


@pytest.mark.parametrize(("method", "path", "status"), REQUESTS)
def test_every_response_has_a_request_id(http, method, path, status):
    given = http.request(method, path, headers=NAMED)
    assert status in (None, given.status_code)
    assert sent(given) == "checkout-7"
    assert MADE.fullmatch(sent(http.request(method, path)))


@pytest.mark.parametrize(
    ("more", "status"),
    [
        ({"headers": {**NAMED, "Host": "evil.example.com"}}, 400),
        ({"headers": NAMED, "content": b" " * (3 * 1024 * 1024)}, 413),
        ({"headers": {**NAMED, "Content-Type": "text/plain"}, "content": b"{}"}, 400),
    ],
)
def test_refused_response_has_the_request_id(http, more, status):
    answer = http.post("/v1/chat/completions", **more)
    assert answer.status_code == status
    assert sent(answer) == "checkout-7"


def test_official_client_exposes_the_request_id(client, user):
    assert MADE.fullmatch(ask(client, user)._request_id)


@pytest.mark.parametrize("stream", [True, False])
def test_reply_and_record_share_the_request_id(server, fake, user, stream):
    answer = post(server, body(user, stream=stream), headers=NAMED)
    assert sent(answer) == load_turn(user).request_id == "checkout-7"


def test_mcp_call_record_has_the_request_id(server, http, user):
    call = {"name": "assistant", "arguments": {"message": "hi"}}
    request = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call}
    headers = {
        **NAMED,
        "Accept": "application/json, text/event-stream",
        "X-Coulisse-User": user,
    }
    answer = http.post("/mcp", json=request, headers=headers)
    assert answer.status_code == 200, answer.text
    assert sent(answer) == load_turn(user).request_id == "checkout-7"


@pytest.mark.parametrize(
    "name", ["x" * 129, "two words", "a<b>", "ünï", "a,b", "a%0d%0aSet-Cookie: b"]
)
def test_invalid_request_id_is_replaced(http, name):
    answer = http.get("/v1/models", headers={"X-Request-Id": name.encode()})
    assert MADE.fullmatch(sent(answer))
    assert "set-cookie" not in answer.headers


def test_folded_header_is_not_reflected(server):
    address = urlsplit(server)
    with socket.create_connection((address.hostname, address.port), 10) as caller:
        caller.sendall(
            b"GET /v1/models HTTP/1.1\r\nHost: test\r\nConnection: close\r\n"
            b"X-Request-Id: a\r\n Set-Cookie: b\r\n\r\n"
        )
        answer = b"".join(iter(lambda: caller.recv(65536), b""))
    head = answer.partition(b"\r\n\r\n")[0].lower()
    assert b"\r\nset-cookie" not in head


# The lines.


@pytest.mark.parametrize("stream", [True, False])
def test_turn_log_line_has_the_request_id(server, fake, user, logged, stream):
    post(server, body(user, stream=stream), headers=NAMED)
    until(lambda: [line for line in logged() if "outcome" in line])
    [line] = [line for line in logged() if "outcome" in line]
    assert line["request_id"] == "checkout-7"
    assert (line["agent"], line["outcome"]) == ("assistant", "ok")


def test_parallel_requests_keep_their_ids(server, fake, user, logged):
    async def ask_all() -> None:
        async with httpx2.AsyncClient(verify=False, timeout=60) as client:
            requested = (
                client.post(
                    f"{server}/v1/chat/completions",
                    json=body(f"{user}-{number}"),
                    headers={"X-Request-Id": f"number-{number}"},
                )
                for number in range(8)
            )
            answers = await asyncio.gather(*requested)
        assert [sent(answer) for answer in answers] == names

    names = [f"number-{number}" for number in range(8)]
    asyncio.run(ask_all())
    until(lambda: sum("outcome" in line for line in logged()) == 8)
    assert sorted(x["request_id"] for x in logged() if "outcome" in x) == names


def test_internal_error_is_logged_with_the_request_id(
    server, user, monkeypatch, logged
):
    def fail(*args: object, **kwargs: object) -> None:
        raise RuntimeError("inside")

    monkeypatch.setattr("turns.preparation.prompt.new_messages", fail)
    error(post(server, body(user), headers=NAMED), 500)
    [line] = [line for line in logged() if "exception" in line]
    assert line["request_id"] == "checkout-7"
    assert line["exception"].endswith("RuntimeError: inside")


def test_internal_error_of_any_view_is_logged(server, monkeypatch, logged):
    def fail() -> None:
        raise RuntimeError("inside")

    monkeypatch.setattr("gateway.health._check_configuration", fail)
    answer = httpx2.get(f"{server}/health/ready", headers=NAMED)
    assert answer.status_code == 500
    [line] = [line for line in logged() if "exception" in line]
    assert line["request_id"] == "checkout-7"
    assert line["exception"].endswith("RuntimeError: inside")


def test_broken_stream_is_logged_with_the_request_id(server, fake, user, logged):
    fake.cut("mid_stream")
    answer = post(server, body(user, stream=True), headers=NAMED)
    assert sent(answer) == "checkout-7"
    [line] = [line for line in logged() if "failed" in line["message"]]
    assert line["request_id"] == "checkout-7"


async def test_database_threads_see_the_request_id(database):
    request_ids.assign_request_id(b"checkout-7")
    assert await database_executor.run(request_ids.current.get) == "checkout-7"
    assert await database_executor.run_to_end(request_ids.current.get) == "checkout-7"
    request_ids.current.set("")
    assert await database_executor.run(request_ids.current.get) == ""


# The other headers of every answer.


@pytest.mark.parametrize(("method", "path", "status"), REQUESTS)
def test_responses_have_nosniff_and_no_store_headers(http, method, path, status):
    headers = http.request(method, path).headers
    assert headers.get_list("x-content-type-options") == ["nosniff"]
    [stored] = headers.get_list("cache-control")
    assert "no-store" in stored
    [result] = headers.get_list("referrer-policy")
    assert result in ("no-referrer", "same-origin")


def test_stream_has_nosniff_and_no_store_headers(server, fake, user):
    headers = post(server, body(user, stream=True)).headers
    assert headers["cache-control"] == "no-cache, no-store"
    assert headers["x-content-type-options"] == "nosniff"


def test_stream_ends_with_done(server, fake, user):
    assert frames(server, body(user))[-1] == "[DONE]"
