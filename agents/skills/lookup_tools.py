"""Tools that let a model look up skills: one per skill, one for their files."""

import asyncio
from collections.abc import Mapping
from functools import partial
from pathlib import PurePosixPath
from typing import Any

from pydantic import Field

from agents.function_tools import FunctionTool, ToolArguments, parse_arguments
from agents.skills.loader import MAX_DESCRIPTION_LENGTH, READ_TOOL, Skill
from agents.skills.skill_files import SKILL_FILE
from core.errors import Invalid
from core.tools import Tool
from core.trace import TracedToolCall

PAGE_LENGTH = 24_000
"""Characters of a file per result. With the list of files it stays below the loop's
limit, which would cut off the hint on how to continue."""
MAX_LISTED = 100
MAX_LIST_LENGTH = 6_000
MAX_FILE_BYTES = 4 * 1024 * 1024

NO_ARGUMENTS = {"type": "object", "properties": {}}


def make_tools(skills: Mapping[str, Skill]) -> list[Tool]:
    """Return one agent's tools for these skills, by name.

    They cannot read other skills.
    """
    if not skills:
        return []
    return [*map(_skill_tool, skills.values()), _file_tool(skills)]


def _skill_tool(skill: Skill) -> FunctionTool:
    """Return the tool that shows the instructions of one skill."""

    async def show(arguments: Mapping[str, Any], record: TracedToolCall) -> str:
        body = skill.body or f"(The {SKILL_FILE} of this skill is empty.)"
        page = text_page(body, 0, skill.name, SKILL_FILE)
        file_list = _file_list(skill.files)
        if not file_list:
            return page
        return f"{page}\n\nFiles of this skill, to read with {READ_TOOL}:\n{file_list}"

    description = skill.description[:MAX_DESCRIPTION_LENGTH]
    return FunctionTool("skill", skill.name, description, NO_ARGUMENTS, show)


class FileArguments(ToolArguments):
    skill: str
    path: str = Field(min_length=1)
    offset: int = Field(0, ge=0)


def _file_tool(skills: Mapping[str, Skill]) -> FunctionTool:
    """Return the tool that reads the files of one agent's skills."""
    return FunctionTool(
        "skill",
        READ_TOOL,
        "Read a file that is bundled with a skill. Call the skill itself first: its "
        "instructions list the files and explain when to read them.",
        _file_parameters(skills),
        partial(_read_file, skills),
    )


def _file_parameters(skills: Mapping[str, Skill]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": {
            "skill": {
                "type": "string",
                "enum": list(skills),
                "description": "The skill the file belongs to.",
            },
            "path": {
                "type": "string",
                "description": "The path of the file, as listed by the skill.",
            },
            "offset": {
                "type": "integer",
                "minimum": 0,
                "description": "The character to start at, to continue a truncated "
                "file. 0 is the beginning.",
            },
        },
        "required": ["skill", "path"],
        "additionalProperties": False,
    }


async def _read_file(
    skills: Mapping[str, Skill], arguments: Mapping[str, Any], record: TracedToolCall
) -> str:
    parsed = parse_arguments(FileArguments, arguments)
    skill = skills.get(parsed.skill)
    if skill is None:
        names = ", ".join(skills)
        raise Invalid(f"there is no skill '{parsed.skill}'; available skills: {names}")
    path = _normalize_path(parsed.path)
    if path == SKILL_FILE:
        return text_page(skill.body, parsed.offset, skill.name, path)
    if path not in skill.files:
        raise Invalid(
            f"'{parsed.path}' is not a file of the skill '{skill.name}'; "
            f"its files are: {', '.join(list(skill.files)[:MAX_LISTED]) or 'none'}"
        )
    text = await asyncio.to_thread(_file_text, skill, path)
    return text_page(text, parsed.offset, skill.name, path)


def _normalize_path(path: str) -> str:
    """Return a path as skills list it; raises `Invalid` if it leaves the folder."""
    parsed = PurePosixPath(path)
    if parsed.is_absolute() or ".." in parsed.parts or "\\" in path:
        raise Invalid(
            f"'{path}' is outside the skill's folder; use the path of a file that the "
            "skill lists"
        )
    return str(parsed)


def _file_text(skill: Skill, path: str) -> str:
    """Return a bundled file's text, or a note if it is not text."""
    try:
        content = skill.read_file(path, MAX_FILE_BYTES + 1)
    except OSError as exc:
        raise Invalid(
            f"'{path}' of the skill '{skill.name}' can no longer be read: it was "
            "removed or is no longer a regular file"
        ) from exc
    if len(content) > MAX_FILE_BYTES:
        size = f"{MAX_FILE_BYTES // 1024 // 1024} MiB"
        return f"({path} is larger than {size} and cannot be shown.)"
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = "\0"
    if "\0" in text:
        return f"({path} is not text but {len(content):,} bytes; it cannot be shown.)"
    return text


def text_page(text: str, offset: int, skill: str, path: str) -> str:
    """Return a page of a text from `offset`, with a hint on how to continue if there is
    more.

    Raises `Invalid` for an offset beyond the end.
    """
    if offset > len(text):
        raise Invalid(f"offset: '{path}' has only {len(text)} characters")
    end = offset + PAGE_LENGTH
    if end >= len(text):
        return text[offset:] or f"({path} ends here.)"
    return (
        f"{text[offset:end]}\n\n(Truncated at character {end} of {len(text)}. To "
        f"continue, call {READ_TOOL} with skill '{skill}', path '{path}', offset "
        f"{end}.)"
    )


def _file_list(files: Mapping[str, int]) -> str:
    lines: list[str] = []
    length = 0
    for path, size in files.items():
        line = f"- {path} ({size:,} bytes)"
        length += len(line) + 1
        if len(lines) == MAX_LISTED or length > MAX_LIST_LENGTH:
            return "\n".join([*lines, f"- and {len(files) - len(lines)} more"])
        lines.append(line)
    return "\n".join(lines)
