"""Whatever is wrong with a provider: which error, how often it is asked, how long."""

from collections.abc import Iterator

import pytest

from core.events import TextDelta
from providers.errors import Overloaded, TimedOut

from . import fault_server as faults
from .conftest import asking, said
from .fault_server import FaultServer

KINDS = pytest.mark.parametrize("kind", ["openai", "anthropic"])
STREAMS = pytest.mark.parametrize("stream", [True, False])


@pytest.fixture
def server() -> Iterator[FaultServer]:
    with FaultServer() as server:
        yield server


@KINDS
@STREAMS
async def test_a_good_reply_is_just_that(server, kind, stream):
    events = await said(server.provider(kind), asking(stream=stream))
    texts = [event.text for event in events if isinstance(event, TextDelta)]
    assert "".join(texts) == "Hello there"
    assert server.requests[0].key == faults.KEY


async def test_500_is_tried_again(server, pauses):
    server.then(faults.status(500))
    assert await said(server.provider())
    assert len(server.requests) == 2


async def test_it_gives_up(server, pauses):
    server.default = faults.status(500, "what a day")
    with pytest.raises(Overloaded, match="what a day"):
        await said(server.provider())
    assert len(server.requests) == 3


async def test_silence(server):
    server.default = faults.silence
    with pytest.raises(TimedOut):
        await said(server.provider(timeouts={"first_token_seconds": 0.1}))
    await server.until(lambda: server.open == 0)
    assert server.requests[0].left
