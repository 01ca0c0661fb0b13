"""The YAML's `tasks:` block."""

import pytest

from agents.config import AGENTS
from config.errors import ConfigInvalid
from config.loading import loader
from tasks.config import TASKS, TasksConfig
from tests.docs.pages import table_rows

AGENT = b"""
providers: {openai: {api_key: k}}
agents:
  - {name: a, provider: openai, model: m%s}
"""


def load(tmp_path, block: str = "", agent: str = ""):
    text = AGENT % (f", {agent}" if agent else "").encode() + block.encode()
    return loader.parse_config(text, tmp_path / "coulisse.yaml")


def test_defaults_match_the_documentation():
    listed = {
        row[0].strip("`"): row[1] for row in table_rows("tasks.md", "field of `tasks`")
    }
    defaults = TasksConfig().model_dump()
    assert listed == {
        name: f"`{documented_value(value)}`" for name, value in defaults.items()
    }


def documented_value(value: bool | float) -> str:
    return str(value).lower() if isinstance(value, bool) else f"{value:g}"


def test_task_tools_need_no_tasks_block(tmp_path):
    for block in ("", "tasks:", "tasks: {}"):
        assert load(tmp_path, block).get(TASKS) == TasksConfig()
    assert not load(tmp_path, "tasks: {tools: false}").get(TASKS).tools


@pytest.mark.parametrize(
    "block",
    [
        "{workers: 0}",
        "{retries: 11}",
        "{timeout_seconds: 0}",
        "{keep_days: 0}",
        "{max_open: 0}",
        "{threads: 4}",
    ],
)
def test_invalid_block_is_refused(tmp_path, block):
    with pytest.raises(ConfigInvalid):
        load(tmp_path, f"tasks: {block}")


def test_agent_may_have_some_task_tools(tmp_path):
    for text, parsed in (
        ("true", True),
        ("false", False),
        ("[tasks_status]", ("tasks_status",)),
    ):
        config = load(tmp_path, agent=f"task_tools: {text}")
        assert config.get(AGENTS)["a"].task_tools == parsed
    with pytest.raises(ConfigInvalid):
        load(tmp_path, agent="task_tools: [dispatch]")
