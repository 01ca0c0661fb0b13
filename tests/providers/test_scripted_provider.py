"""The scripted provider of the package `testing`."""

import asyncio
import socket
import struct
import threading
from urllib.parse import urlsplit

import pytest

from core.events import TextDelta
from providers import client
from testing.scripted_provider import ScriptedAnswer
from tests.providers.conftest import collect_events

KINDS = pytest.mark.parametrize("kind", ["openai", "anthropic"])
PLACES = pytest.mark.parametrize("place", ["headers", "first_token", "mid_stream"])


def test_fake_provider_serves_synchronous_tests(fake):
    async def call() -> None:
        await collect_events(fake.provider())
        await client.close()

    caller = threading.Thread(target=lambda: asyncio.run(call()))
    caller.start()
    fake.wait(lambda: fake.requests and fake.requests[0].answered)
    caller.join()
    with pytest.raises(TimeoutError):
        fake.wait(lambda: len(fake.requests) > 1, 0.01)


async def test_fake_provider_can_answer_by_request(fake):
    fake.default = lambda request: ScriptedAnswer(
        [request.body["messages"][-1]["content"]]
    )
    assert (await collect_events(fake.provider()))[0] == TextDelta("Hi")


@pytest.mark.parametrize("hang", ["first_token", None])
def test_fake_provider_records_early_disconnects(fake, hang):
    caller = socket.create_connection(("127.0.0.1", urlsplit(fake.root_url).port))

    def reset(_request) -> ScriptedAnswer:
        # Closed with a reset, so that writing is what fails.
        linger = struct.pack("ii", 1, 0)
        caller.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        caller.close()
        return ScriptedAnswer(hang=hang)

    fake.default = reset
    body = b'{"stream": true}'
    head = f"POST /v1/chat/completions HTTP/1.1\r\nContent-Length: {len(body)}\r\n\r\n"
    caller.sendall(head.encode() + body)
    fake.wait(lambda: fake.requests and fake.requests[0].aborted)
    assert len(fake.requests) == 1


async def test_fake_provider_can_pause_between_chunks(fake):
    fake.reply("a", "b", pause_seconds=0.001)
    assert (await collect_events(fake.provider()))[:2] == [
        TextDelta("a"),
        TextDelta("b"),
    ]
