"""`update_state`: changes what an agent keeps of a conversation.

The changes are stored in the transaction that stores the turn, or not at all.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

import orjson

from agents.function_tools import FunctionTool
from agents.state import presentation
from agents.state.config import RESET
from agents.state.reducers import Fields, StateChange, reduce_state
from core.errors import Invalid
from core.trace import TracedToolCall

NAME = "update_state"
DESCRIPTION = (
    "Change the state of this conversation, which you see in every later turn: call it "
    "when something changed. Give only the fields that change; fields to empty or to "
    "rewrite are named in 'reset'. Returns the new state."
)


@dataclass(slots=True)
class TurnState:
    """The state of a turn's agent: as it was read, and the changes since."""

    fields: Fields
    values: Mapping[str, Any] = field(default_factory=dict)
    changes: list[StateChange] = field(default_factory=list)

    async def call(self, arguments: Mapping[str, Any], record: TracedToolCall) -> str:
        """Apply the arguments of a call; return the state as JSON."""
        values = dict(arguments)
        change = StateChange(values, _read_names(values.pop(RESET, [])))
        self.values = reduce_state(self.fields, self.values, change)
        self.changes.append(change)
        return orjson.dumps(self.values).decode()

    def reduce(self, stored: Mapping[str, Any]) -> dict[str, Any]:
        """Apply the changes to what is stored by now: other turns may have changed it.

        The model has the answer that they are stored. So they are, even if the state
        becomes larger than it may be: the next change is refused until it is smaller.
        """
        state = dict(stored)
        for change in self.changes:
            state = reduce_state(self.fields, state, change, is_bounded=False)
        return state


def make_tool(state: TurnState) -> FunctionTool:
    parameters = presentation.tool_parameters(state.fields)
    return FunctionTool("memory", NAME, DESCRIPTION, parameters, state.call)


def _read_names(names: Any) -> Collection[str]:
    if not isinstance(names, list) or not all(isinstance(each, str) for each in names):
        raise Invalid(f"'{RESET}' must be a list of the names of fields")
    return names
