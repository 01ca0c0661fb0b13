"""A turn of the playground as server-sent events, on the event loop."""

import logging
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import cast

from core.errors import CoulisseError
from gateway.openai import chat, sse
from turns.turn import TurnRequest

logger = logging.getLogger(__name__)


async def frames(turn: TurnRequest) -> AsyncGenerator[bytes]:
    """Yield the turn's frames; what goes wrong before the first is one, too."""
    try:
        answer = await chat.stream(turn, include_usage=True)
    except CoulisseError as exc:
        yield sse.error(exc, for_operators=True) + sse.DONE
        return
    except Exception:
        logger.exception("a turn of the playground failed")
        yield sse.error(None) + sse.DONE
        return
    async with aclosing(cast(AsyncGenerator[bytes], aiter(answer))) as told:
        async for frame in told:
            yield frame
