"""Estimates the tokens of a request whose turn has not run."""

from collections.abc import Mapping, Sequence
from typing import Any

from agents.config import AGENTS
from config import live
from core import token_estimates, token_usage
from core.messages import Message
from turns.preparation import prompt
from turns.turn import TurnRequest


def estimate_turn(turn: TurnRequest) -> int:
    return estimate_input(turn.agent, turn.messages, turn.tools, turn.response_format)


def estimate_input(
    name: str,
    messages: Sequence[Message],
    tools: Sequence[Mapping[str, Any]],
    response_format: Mapping[str, Any] | None,
) -> int:
    """Return an estimate of the input tokens, with the preamble of the named agent.

    What is recalled of the user and the agent's own tools are left out: both are known
    only when the turn runs. So is the preamble of an experiment.
    """
    agent = live.current().get(AGENTS).get(name)
    preamble = "" if agent is None else agent.preamble
    return token_usage.estimate_sent(
        [*prompt.system_messages(preamble, (), []), *messages],
        tool_tokens=token_estimates.estimate_json(tools),
        response_format=response_format,
    )
