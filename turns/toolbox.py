"""What an agent may call in a turn."""

from collections.abc import Sequence

from agents.config import AgentConfig
from core.errors import Invalid
from core.ids import UserId
from core.tools import Tool
from memory.plan import Plan
from turns import memory_tools
from turns.options import Options


def open_for(
    agent: AgentConfig,
    options: Options,
    user_id: UserId,
    plan: Plan | None,
    client_tools: Sequence[dict[str, object]],
) -> Sequence[Tool]:
    """Return the agent's own tools, bound to the turn's user.

    Raises `Invalid` when the client brings one of the same name.
    """
    if not agent.memory_tools or options.is_memory_off:
        return ()
    tools = memory_tools.make(user_id, agent.name, plan)
    _check_names(agent, tools, client_tools)
    return tools


def _check_names(
    agent: AgentConfig,
    tools: Sequence[Tool],
    client_tools: Sequence[dict[str, object]],
) -> None:
    own = {tool.name for tool in tools}
    for tool in client_tools:
        function = tool["function"]
        if isinstance(function, dict) and function["name"] in own:
            raise Invalid(
                f"the tool '{function['name']}' has the name of one that agent "
                f"'{agent.name}' has itself; rename yours",
                param="tools",
            )
