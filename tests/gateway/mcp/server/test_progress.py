"""Progress and cancellation of calls."""

import asyncio
from contextlib import ExitStack

import pytest

from gateway.mcp_server import exchange, views
from testing.wires import ScriptedAnswer
from tests.conftest import CONFIG, serve
from tests.gateway import mcp_calls
from tests.gateway.calls import prompt, stored, threads, until
from tests.gateway.mcp.server.session import EITHER
from tests.gateway.mcp_calls import call, connected, post, rpc, text, with_client

pytestmark = pytest.mark.database

# Progress and cancellation.


@EITHER
def test_progress_is_reported_during_a_call(server, fake, user, mode, monkeypatch):
    monkeypatch.setattr(exchange, "HEARTBEAT_SECONDS", 0.02)
    fake.hang("headers", "At last.")
    heard = []

    async def beat(progress, total, message):
        heard.append((progress, message))
        if len(heard) == 3:
            fake.release()

    def wait(client):
        requested = {"message": "hi"}
        return client.call_tool("assistant", requested, progress_callback=beat)

    result = with_client(server, user, wait, mode=mode)
    assert text(result) == "At last."
    assert heard[0][1] == "assistant is working"
    times = [progress for progress, _ in heard]
    assert times == sorted(set(times))


@EITHER
def test_progress_names_the_called_subagent(running, configure, fake, user, mode):
    configure(
        CONFIG.replace(
            "name: assistant\n", "name: assistant\n    subagents: [claude]\n"
        )
    )
    fake.call_tool("claude", {"message": "Think."})
    heard = []

    async def hear(progress, total, message):
        heard.append(message)

    def wait(client):
        requested = {"message": "hi"}
        return client.call_tool("assistant", requested, progress_callback=hear)

    assert not with_client(running, user, wait, mode=mode).is_error
    assert heard == ["assistant calls claude"]


@EITHER
def test_heartbeats_are_sent_during_a_long_call(server, fake, user, mode, monkeypatch):
    monkeypatch.setattr(exchange, "HEARTBEAT_SECONDS", 0.02)
    fake.reply("At last.", pause_seconds=0.1)
    assert text(mcp_calls.ask(server, user, "hi", mode=mode)) == "At last."


def test_client_without_stream_support_gets_json(server, fake, user, monkeypatch):
    monkeypatch.setattr(exchange, "HEARTBEAT_SECONDS", 0.02)
    fake.reply("At last.", pause_seconds=0.1)
    answer = post(server, call("assistant", message="hi"), user)
    assert answer.headers["content-type"] == "application/json"
    assert answer.json()["result"]["content"][0]["text"] == "At last."


@EITHER
def test_cancelled_call_stops_the_provider(server, fake, user, mode, settled):
    fake.hang("headers")

    async def give_up(client):
        requested = client.call_tool("assistant", {"message": "hi"})
        task = asyncio.create_task(requested)
        await fake.until(lambda: fake.requests)
        task.cancel()
        await asyncio.wait((task,))
        await fake.until(lambda: fake.requests[-1].aborted)
        await asyncio.to_thread(settled)
        await client.list_tools()  # An answer too late must find the client there.

    with_client(server, user, give_up, mode=mode)
    assert stored(user) == [("user", "hi", "")]
    settled()


@pytest.mark.parametrize("token", [None, "t"])
def test_client_disconnect_stops_the_provider(server, fake, user, token, settled):
    fake.hang("mid_stream", "first", "second")
    body = call("assistant", message="hi")
    if token is not None:
        body["params"]["_meta"] = {"progressToken": token}
    with mcp_calls.calling(server, body, user):
        fake.wait(lambda: fake.requests)
    fake.wait(lambda: fake.requests[-1].aborted)
    assert until(lambda: stored(user))
    settled()


@pytest.mark.parametrize("token", [None, "t"])
def test_server_shutdown_stores_the_partial_reply(
    running, configure, fake, user, token
):
    configure(CONFIG)
    fake.hang("mid_stream", "first", "second")
    body = call("assistant", message="hi")
    if token is not None:
        body["params"]["_meta"] = {"progressToken": token}
    with ExitStack() as stack:
        stopping = serve("coulisse_site.asgi:application", grace_seconds=0)
        with stopping as url:
            stack.enter_context(mcp_calls.calling(url, body, user))
            fake.wait(lambda: fake.requests)
    fake.wait(lambda: fake.requests[-1].aborted)
    assert stored(user)[0] == ("user", "hi", "")


def test_another_clients_request_cannot_be_cancelled(server, fake, user):
    fake.hang("headers", "done")

    async def meddle(client):
        requested = client.call_tool("assistant", {"message": "hi"})
        task = asyncio.create_task(requested)
        await fake.until(lambda: fake.requests)
        for guess in range(10):
            cancelling = rpc("notifications/cancelled", {"requestId": guess})
            del cancelling["id"]
            for session in ({}, {"Mcp_Session_Id": "other"}):
                answer = await asyncio.to_thread(
                    post, server, cancelling, user, **session
                )
                assert answer.status_code == 202
        fake.release()
        return await task

    assert text(with_client(server, user, meddle, mode="legacy")) == "done"


async def test_reused_request_id_can_be_cancelled():
    first, second = (asyncio.create_task(asyncio.Event().wait()) for _ in range(2))
    for task in (first, second):
        views.register_request("session", 1, task)
    first.cancel()
    await asyncio.wait([first])
    views.cancel_request("session", {"requestId": 1})
    await asyncio.wait([second], timeout=5)
    assert second.cancelled()


def test_parallel_calls_get_their_own_answers(server, fake, user, settled):
    def echo(request):
        return ScriptedAnswer([prompt(request)[-1][1]], pause_seconds=0.01)

    fake.default = echo

    async def crowd():
        async with (
            connected(server, f"{user}-a") as one,
            connected(server, f"{user}-b", mode="legacy") as other,
        ):
            requested = [
                (one, other)[number % 2].call_tool(
                    "assistant", {"message": f"{number}", "thread_id": f"{number}"}
                )
                for number in range(50)
            ]
            return await asyncio.gather(*requested)

    results = asyncio.run(crowd())
    assert [text(result) for result in results] == [str(n) for n in range(50)]
    assert len(threads(f"{user}-a")) == len(threads(f"{user}-b")) == 25
    settled()
