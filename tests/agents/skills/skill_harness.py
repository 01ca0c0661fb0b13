"""Helpers of the tests of skills."""

import logging
from pathlib import Path

import pytest

from agents.skills import skill_registry
from config.sections import Config
from core.errors import CoulisseError
from core.trace import TracedToolCall

HEAD = "---\nname: {name}\ndescription: {description}\n---\n"


def write_file(folder: Path, path: str, content: str | bytes = "") -> Path:
    """Write a file and its parent folders."""
    file = folder / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(content.encode() if isinstance(content, str) else content)
    return file


def load_skill(config: Config, name: str):
    """Reload the skills and return one."""
    skill_registry.get_skills(config)
    skill_registry.refresh()
    return skill_registry.get_skills(config).get(name)


async def call_tool(tool, **arguments) -> str:
    """Call a tool."""
    return await tool.call(arguments, TracedToolCall(tool.name, tool.kind, ""))


async def call_refused_tool(tool, **arguments) -> str:
    """Call a tool that must refuse; return its error message."""
    with pytest.raises(CoulisseError) as caught:
        await call_tool(tool, **arguments)
    return str(caught.value)


def make_tools(config, *names):
    return {tool.name: tool for tool in skill_registry.make_tools(config, names)}


def skill_log(caplog, *, above: int = logging.NOTSET) -> list[str]:
    """Return the log messages about skills, without those of other apps."""
    return [
        record.getMessage()
        for record in caplog.records
        if record.levelno >= above and record.name.startswith("agents.")
    ]


def skill_warnings(caplog) -> list[str]:
    """Return the warnings about skills."""
    return skill_log(caplog, above=logging.WARNING)
