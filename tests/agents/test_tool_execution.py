import pytest

from agents import tool_execution
from core.errors import CoulisseError
from core.messages import ToolCall


def nested(depth: int) -> ToolCall:
    return ToolCall("call_1", "echo", '{"a":' * depth + "1" + "}" * depth)


def test_arguments_may_be_nested():
    assert tool_execution.parse_arguments(nested(64))


@pytest.mark.parametrize("depth", [65, 400])
def test_too_deeply_nested_arguments_are_a_tool_error(depth):
    with pytest.raises(CoulisseError, match="nested more than 64 deep"):
        tool_execution.parse_arguments(nested(depth))
