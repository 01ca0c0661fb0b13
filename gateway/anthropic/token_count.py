"""Estimates the tokens of a request for a message."""

from agents.config import AGENTS
from config import live
from core import token_estimates, token_usage
from gateway.anthropic import input_messages, request_conversion
from gateway.anthropic.schemas import CountRequest
from turns.preparation import prompt


def estimate_tokens(body: CountRequest) -> int:
    """Return an estimate of the input tokens, with the agent's preamble.

    What is recalled of the user and the agent's own tools are left out: both are known
    only when the turn runs. So is the preamble of an experiment.
    """
    messages = input_messages.to_messages(body.system, body.messages)
    agent = live.current().get(AGENTS).get(body.model)
    preamble = "" if agent is None else agent.preamble
    tools = request_conversion.read_tools(body)
    return token_usage.estimate_sent(
        [*prompt.system_messages(preamble, (), []), *messages],
        tool_tokens=token_estimates.estimate_json(tools),
        response_format=request_conversion.native_format(body),
    )
