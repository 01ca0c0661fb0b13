"""The start of a turn's safety checks: of its messages, by patterns."""

import asyncio
from dataclasses import replace

from agents.config import AgentConfig
from config.sections import Config
from safety.config import SAFETY
from safety.turn_safety import CheckedTurn, TurnSafety
from turns.turn import TurnRequest

MAX_INLINE_CHARS = 8_000
"""Longer messages are checked in a thread, beside other requests."""


def start(
    config: Config, request: TurnRequest, agent: AgentConfig
) -> TurnSafety | None:
    """Return the checks of a turn; None if its agent has none."""
    settings = config.get(SAFETY)
    checks = settings.checks and settings.checks_of(agent.name)
    if not checks:
        return None
    options = request.options
    turn = CheckedTurn(
        agent.name,
        request.turn_id,
        request.user_id,
        options.thread,
        options.is_incognito,
    )
    return TurnSafety(config, settings, checks, turn)


async def mask_input(request: TurnRequest, safety: TurnSafety) -> TurnRequest:
    """Check a request's messages by patterns; return it with what they mask.

    Before anything reads the messages, so that neither models nor tables have the rest.
    """
    messages = request.messages
    if sum(len(message.text) for message in messages) <= MAX_INLINE_CHARS:
        masked = safety.mask_input(messages)
    else:
        masked = await asyncio.to_thread(safety.mask_input, messages)
    return request if masked is messages else replace(request, messages=masked)
