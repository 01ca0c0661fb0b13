"""A server that stops during a reply."""

import json
import threading
from contextlib import ExitStack
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import httpx2
import pytest

from providers.pricing import price_table
from tests.conftest import serve
from tests.gateway.calls import body, open_connection, post, stored, until

pytestmark = pytest.mark.database


@pytest.mark.parametrize("agent", ["assistant", "claude"])
def test_cancelled_stream_stores_its_partial_reply(server, fake, user, agent):
    fake.hang("mid_stream", "first", "second")
    with ExitStack() as stack:
        stopping = serve("coulisse_site.asgi:application", grace_seconds=0)
        request = body(user, agent=agent, stream=True)
        with stopping as url:
            caller = stack.enter_context(open_connection(url, request))
            caller.read_until("first")
        caller.read_until("data: [DONE]\n\n\r\n0\r\n\r\n")
    assert b'"code":"server_stopping"' in caller.received
    assert b'"finish_reason":"' not in caller.received
    assert stored(user) == [("user", "hi", ""), ("assistant", "first", "cancelled")]
    fake.wait(lambda: fake.requests[-1].aborted)


@pytest.mark.parametrize(
    ("path", "fields", "ends"),
    [
        (
            "/v1/responses",
            {"input": "hi"},
            ["event: error\n", "server_stopping", "event: response.failed\n"],
        ),
        (
            "/v1/messages",
            {"messages": [{"role": "user", "content": "hi"}], "max_tokens": 9},
            ["event: error\n", '"type":"overloaded_error"'],
        ),
        ("/v1/completions", {"prompt": "hi"}, ["server_stopping", "data: [DONE]"]),
    ],
)
def test_streams_end_in_the_format_of_their_endpoint(
    server, fake, user, path, fields, ends
):
    fake.hang("mid_stream", "first", "second")
    request = {"model": "assistant", "stream": True, **fields}
    headers = {"X-Coulisse-User": user}
    chunks = []

    def ask(url: str) -> None:
        with httpx2.stream(
            "POST", url + path, json=request, headers=headers, timeout=60
        ) as reply:
            for chunk in reply.iter_text():
                chunks.append(chunk)

    with serve("coulisse_site.asgi:application", grace_seconds=0) as url:
        asking = threading.Thread(target=ask, args=(url,))
        asking.start()
        until(lambda: "first" in "".join(chunks))
    asking.join(60)
    text = "".join(chunks)
    positions = [text.index(end) for end in ends]
    assert positions == sorted(positions)


@pytest.mark.parametrize("stream", [True, False])
def test_waiting_client_gets_server_stopping(server, fake, user, stream):
    fake.hang("headers")
    result = []

    def ask(url: str) -> None:
        content = json.dumps(body(user, stream=stream)).encode()
        headers = {"Content-Type": "application/json"}
        with pytest.raises(HTTPError) as caught:
            urlopen(Request(f"{url}/v1/chat/completions", content, headers))
        result.append((caught.value.code, json.load(caught.value)["error"]["code"]))

    with serve("coulisse_site.asgi:application", grace_seconds=0) as url:
        asking = threading.Thread(target=ask, args=(url,))
        asking.start()
        fake.wait(lambda: fake.requests)
    asking.join(60)
    assert result == [(503, "server_stopping")]


def test_failed_warmup_does_not_block_shutdown(server, fake, user, monkeypatch, caplog):
    def broken() -> None:
        raise RuntimeError("no such list")

    monkeypatch.setattr(price_table, "warm", broken)
    before = watchers()
    with serve("coulisse_site.asgi:application") as url:
        assert post(url, body(user)).status_code == 200
        assert watchers() > before
    assert watchers() == before
    assert "no such list" in caplog.text


def watchers() -> set[threading.Thread]:
    """Return the threads that a regular stop of the server ends."""
    return {each for each in threading.enumerate() if "watcher" in each.name}
