"""A stored response as a stream of events: of a background one, as soon as it ends.

The events are made from what is stored, so they have the same numbers in every stream:
a client continues after the last one that it received.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator

from core.errors import CoulisseError
from core.ids import UserId
from core.runtime import process_stop
from gateway.asgi.event_stream import EventStream
from gateway.openai import sse
from gateway.openai.errors import ResponseUnknown
from gateway.openai.responses import stored_responses
from gateway.openai.responses.event_encoder import EventEncoder
from turns.stored_turns import StoredTurn

logger = logging.getLogger(__name__)

POLL_SECONDS = 0.5
"""How often the state of a task is read."""


def stream(user_id: UserId, stored: StoredTurn, *, after: int | None) -> EventStream:
    """Return the events of a response whose number is higher than `after`."""
    head = stored_responses.head_of(stored)
    encoder = EventEncoder(head, after=-1 if after is None else after)
    # When the server stops, it ends without an event: the response has not failed.
    return EventStream(_encode_frames(user_id, stored, encoder))


async def _encode_frames(
    user_id: UserId, stored: StoredTurn, encoder: EventEncoder
) -> AsyncGenerator[bytes]:
    yield encoder.first_frame()
    while stored.is_open:
        await asyncio.sleep(POLL_SECONDS)
        if process_stop.has_begun():
            return  # A worker makes the response; another process can wait for it.
        yield sse.HEARTBEAT
        try:
            stored = await stored_responses.read(user_id, encoder.id)
        except ResponseUnknown as exc:
            # It was deleted.
            yield encoder.failure_frame(exc)
            return
        except CoulisseError as exc:
            logger.warning("the stream of %s ended: %s", encoder.id, exc)
            return
    yield _encode_end(encoder, stored)


def _encode_end(encoder: EventEncoder, stored: StoredTurn) -> bytes:
    response = stored_responses.serialize(stored)
    if stored.turn is None or response["status"] in ("cancelled", "failed"):
        return encoder.encode_end(response)
    encoder.turn_id = stored.turn.turn_id
    encoder.ended_at = response["completed_at"]
    return b"".join(map(encoder.encode, stored.events()))
