"""How a request and the stored conversation become one."""

from collections.abc import Sequence
from typing import Literal

from agents.config import AgentConfig
from config.sections import Config
from core.history import History
from core.messages import Message
from turns.config import HISTORY
from turns.turn import TurnRequest

Reading = Literal["server", "client", "none"]


def read_history(config: Config, request: TurnRequest, agent: AgentConfig) -> Reading:
    """Return how to read a request: the most specific setting wins.

    `auto` is decided by the messages: with a reply among them, the client keeps the
    conversation itself.
    """
    options = request.options
    if options.is_incognito:
        return "none"
    named = options.history or request.caller.history or agent.history
    setting: History = config.get(HISTORY) if named is None else named
    if setting != "auto":
        return setting
    return "client" if _has_reply(request.messages) else "server"


def _has_reply(messages: Sequence[Message]) -> bool:
    return any(message.role == "assistant" for message in messages)
