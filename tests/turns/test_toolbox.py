"""Tools of an agent: unique names, depth, and MCP servers."""

import asyncio
import json
import sys
import uuid

from agents.config import AGENTS
from agents.function_tools import FunctionTool
from config.loading import loader
from core.ids import UserId
from mcp_bridge import toolset
from tests.mcp_bridge.conftest import HERE
from turns.preparation import options
from turns.tools import mcp_sessions
from turns.tools.toolbox import Toolbox, make_names_unique
from turns.turn import TurnRequest

TWINS = """
providers: {openai: {api_key: sk-secret}}
agents:
  - {name: one, provider: openai, model: m, subagents: [two]}
  - {name: two, provider: openai, model: m, subagents: [one]}
"""


def test_tools_with_equal_names_get_distinct_names():
    tools = [
        FunctionTool("mcp", "add", "Add.", {}, None, target)
        for target in ("", "maths", "maths", "maths", "")
    ]
    assert [tool.name for tool in make_names_unique(tools)] == [
        "add",
        "maths_add",
        "maths_add_2",
        "maths_add_3",
        "mcp_add",
    ]


async def test_subagents_know_their_depth(tmp_path):
    config = loader.parse_config(TWINS.encode(), tmp_path / "coulisse.yaml")
    user_id = UserId(uuid.uuid4())
    agent = config.get(AGENTS)["one"]
    [tool] = await Toolbox(config, user_id, options.read_options({})).open(agent)
    seen = []
    for _ in range(3):
        seen.append((tool.name, tool.depth, tool.user))
        [tool] = await tool.open_tools((await tool.resolve()).agent)
    assert seen == [
        (name, n, user_id.hex) for n, name in enumerate(("two", "one", "two"), start=1)
    ]


SLEEPY = """
providers: {{openai: {{api_key: sk-secret}}}}
mcp: {{it: {{command: {python}, args: {args}, env: {{GO: {go}}}}}}}
agents:
  - name: one
    provider: openai
    model: m
    mcp_tools: [{{server: it, only: [pid]}}]
"""


async def test_background_turn_waits_for_its_mcp_servers(tmp_path, monkeypatch):
    monkeypatch.setattr(toolset, "TIMEOUT_SECONDS", 0.01)
    args = ["-I", "-S", str(HERE / "raw_stdio_server.py"), "sleepy"]
    text = SLEEPY.format(
        python=json.dumps(sys.executable), args=json.dumps(args), go=tmp_path / "go"
    )
    config = loader.parse_config(text.encode(), tmp_path / "coulisse.yaml")
    agent = config.get(AGENTS)["one"]

    async def tool_names(origin) -> list[str]:
        user_id = UserId(uuid.uuid4())
        request = TurnRequest(
            agent="one",
            user_id=user_id,
            messages=[],
            options=options.read_options({}),
            parameters={},
            origin=origin,
        )
        box = Toolbox(config, user_id, request.options, request=request)
        return [tool.name for tool in await box.open(agent) if tool.kind == "mcp"]

    try:
        waiting = [asyncio.create_task(tool_names(by)) for by in ("task", "smoke")]
        assert await tool_names("chat") == ["it_unreachable"]
        (tmp_path / "go").touch()
        assert await asyncio.gather(*waiting) == [["pid"], ["pid"]]
    finally:
        await mcp_sessions.POOL.close()
