"""An agent's tools have names of their own, and know how deep they are."""

import uuid
from dataclasses import dataclass

from agents.config import AGENTS
from config import loader
from core.ids import UserId
from turns import options
from turns.toolbox import Toolbox, distinct

TWINS = """
providers: {openai: {api_key: sk-secret}}
agents:
  - {name: one, provider: openai, model: m, subagents: [two]}
  - {name: two, provider: openai, model: m, subagents: [one]}
"""


@dataclass
class Tool:
    name: str
    target: str = ""
    kind: str = "mcp"


def test_tools_of_one_name_are_told_apart_one_by_one():
    tools = [Tool("add", target) for target in ("", "maths", "maths", "maths", "")]
    assert [tool.name for tool in distinct(tools)] == [
        *("add", "maths_add", "maths_add_2", "maths_add_3", "mcp_add")
    ]


async def test_agents_know_how_many_stand_above_them(tmp_path):
    config = loader.parse(TWINS.encode(), tmp_path / "coulisse.yaml")
    user_id = UserId(uuid.uuid4())
    agent = config.get(AGENTS)["one"]
    [tool] = await Toolbox(config, user_id, options.read({})).open(agent)
    seen = []
    for _ in range(3):
        seen.append((tool.name, tool.depth, tool.user))
        [tool] = await tool.open_tools((await tool.find()).agent)
    assert seen == [
        (name, n, user_id.hex) for n, name in enumerate(("two", "one", "two"), start=1)
    ]
