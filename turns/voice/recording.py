"""Requests of conversations by voice, limited and recorded as turns are."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from core.reply import Reply
from turns import flow
from turns.lifecycle import completion, turn_record
from turns.preparation.turn_builder import prepare
from turns.turn import Turn, TurnRequest


@asynccontextmanager
async def open_turn(request: TurnRequest) -> AsyncGenerator[Turn]:
    """Prepare a turn without a reply; record and charge it at the end.

    It adds no messages: the browser adds those of the conversation. Raises as
    `prepare` does.
    """
    turn = await prepare(request)
    reply = Reply()
    turn_record.register_live(turn)
    try:
        yield turn
    except (asyncio.CancelledError, GeneratorExit):
        await flow.save_interrupted(turn, reply, "cancelled")
        raise
    except Exception as exc:
        await flow.save_interrupted(turn, reply, "error", exc)
        raise
    else:
        await completion.save(turn, reply)
    finally:
        turn_record.unregister_live(turn)
