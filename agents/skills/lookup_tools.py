"""Tools that let a model look up skills: one per skill, one for their files."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from agents.skills.loader import MAX_DESCRIPTION_LENGTH, READ_TOOL, Skill
from agents.skills.skill_files import SKILL_FILE
from core.errors import Invalid
from core.tools import Tool
from core.trace import TracedToolCall

PAGE_LENGTH = 24_000
"""Characters of a file per result. With the list of files below it stays under the
loop's limit, which would cut off the hint on how to read on."""
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
    return [*map(SkillTool, skills.values()), SkillFileTool(skills)]


@dataclass(frozen=True, slots=True)
class SkillTool:
    """Returns the instructions of one skill."""

    skill: Skill
    kind: Literal["skill"] = "skill"
    target: str = ""

    @property
    def name(self) -> str:
        return self.skill.name

    @property
    def description(self) -> str:
        return self.skill.description[:MAX_DESCRIPTION_LENGTH]

    @property
    def parameters(self) -> Mapping[str, Any]:
        return NO_ARGUMENTS

    async def call(self, arguments: Mapping[str, Any], record: TracedToolCall) -> str:
        body = self.skill.body or f"(The {SKILL_FILE} of this skill is empty.)"
        told = text_page(body, 0, self.skill.name, SKILL_FILE)
        listed = _file_list(self.skill.files)
        if not listed:
            return told
        return f"{told}\n\nFiles of this skill, which {READ_TOOL} reads:\n{listed}"


class FileArguments(BaseModel):
    """Arguments of `skill_file`; unknown names are refused."""

    model_config = ConfigDict(extra="forbid")

    skill: str
    path: str = Field(min_length=1)
    offset: int = Field(0, ge=0)


@dataclass(frozen=True, slots=True)
class SkillFileTool:
    """Reads the files of one agent's skills."""

    skills: Mapping[str, Skill]
    kind: Literal["skill"] = "skill"
    target: str = ""
    name: str = READ_TOOL
    description: str = (
        "Read a file that is bundled with a skill. Call the skill itself first: its "
        "instructions say which files there are and when they are needed."
    )

    @property
    def parameters(self) -> Mapping[str, Any]:
        return {
            "type": "object",
            "properties": {
                "skill": {
                    "type": "string",
                    "enum": list(self.skills),
                    "description": "The skill the file belongs to.",
                },
                "path": {
                    "type": "string",
                    "description": "The file's path in the skill's folder, as the "
                    "skill lists it.",
                },
                "offset": {
                    "type": "integer",
                    "minimum": 0,
                    "description": "The character to begin at, to read on in a file "
                    "that was cut. 0 is the beginning.",
                },
            },
            "required": ["skill", "path"],
            "additionalProperties": False,
        }

    async def call(self, arguments: Mapping[str, Any], record: TracedToolCall) -> str:
        asked = _check_arguments(arguments)
        skill = self.skills.get(asked.skill)
        if skill is None:
            known = ", ".join(self.skills)
            raise Invalid(f"there is no skill '{asked.skill}'; there are: {known}")
        path = _normalize_path(asked.path)
        if path == SKILL_FILE:
            return text_page(skill.body, asked.offset, skill.name, path)
        if path not in skill.files:
            raise Invalid(
                f"'{asked.path}' is not a file of the skill '{skill.name}'; "
                f"its files are: {', '.join(list(skill.files)[:MAX_LISTED]) or 'none'}"
            )
        text = await asyncio.to_thread(_file_text, skill, path)
        return text_page(text, asked.offset, skill.name, path)


def _check_arguments(arguments: Mapping[str, Any]) -> FileArguments:
    try:
        return FileArguments.model_validate(arguments)
    except ValidationError as exc:
        errors = exc.errors(include_url=False, include_input=False)
        told = (f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in errors)
        raise Invalid("; ".join(told)) from exc


def _normalize_path(path: str) -> str:
    """Return a path as skills list it; raises `Invalid` if it leaves the folder."""
    written = PurePosixPath(path)
    if written.is_absolute() or ".." in written.parts or "\\" in path:
        raise Invalid(
            f"'{path}' leads out of the skill's folder; only the files it lists can "
            "be read, by their paths in there"
        )
    return str(written)


def _file_text(skill: Skill, path: str) -> str:
    """Return a bundled file's text, or a note if it is not text."""
    try:
        content = skill.read_file(path, MAX_FILE_BYTES + 1)
    except OSError as exc:
        raise Invalid(
            f"'{path}' of the skill '{skill.name}' cannot be read any more: it was "
            "removed, or is no plain file now"
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
    """Return a page of a text from `offset`, with a hint on how to read on if there is
    more.

    Raises `Invalid` for an offset beyond the end.
    """
    if offset > len(text):
        raise Invalid(f"offset: '{path}' has only {len(text)} characters")
    end = offset + PAGE_LENGTH
    if end >= len(text):
        return text[offset:] or f"({path} ends here.)"
    return (
        f"{text[offset:end]}\n\n(Cut: this is up to character {end} of {len(text)}. To "
        f"read on, call {READ_TOOL} with skill '{skill}', path '{path}', offset {end}.)"
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
