"""Parser of SKILL.md: its name and description, and the instructions below them."""

import re
from dataclasses import dataclass
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError

from config.loading.reader import PARSER_HINTS
from core.errors import Invalid

MAX_FRONTMATTER_LENGTH = 16_384
"""Characters of frontmatter that are parsed; a few hundred are typical."""
MAX_DEPTH = 32

PARSER_ERRORS = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    LookupError,
    RecursionError,
    TypeError,
    ValueError,
)
"""Errors that the YAML parser raises besides its own, for example for `!!float ''` and
`\\U99999999`."""

FENCE = "---"
FRONTMATTER = re.compile(
    r"\A---[ \t]*\n(.*?)^---[ \t]*(?:\n|\Z)", re.DOTALL | re.MULTILINE
)


class SkillInvalid(Invalid):
    """A SKILL.md cannot be used."""


@dataclass(frozen=True, slots=True)
class SkillText:
    """The content of a SKILL.md."""

    name: str | None
    """The name in the frontmatter, if set."""
    description: str
    body: str


def parse(content: bytes) -> SkillText:
    """Return the content of a SKILL.md; raises `SkillInvalid`.

    The frontmatter between two lines `---` is optional. Only its fields `name` and
    `description` are read; other programs use the others.

    Source: "Writing a skill" of the reference.
    """
    head, body = _split(_decode(content))
    fields = _parse_frontmatter(head)
    name = _one_line(fields, "name")
    description = _one_line(fields, "description") or ""
    return SkillText(name, description, body.strip("\n"))


def _decode(content: bytes) -> str:
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as exc:
        line = content.count(b"\n", 0, exc.start) + 1
        raise SkillInvalid(f"line {line} is not UTF-8 text; save it as UTF-8") from None
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _split(text: str) -> tuple[str, str]:
    """Return the frontmatter and the text after it."""
    if text.partition("\n")[0].rstrip() != FENCE:
        return "", text
    match = FRONTMATTER.match(text)
    if match is None:
        raise SkillInvalid(
            "its frontmatter is not closed; add a line '---' after its last field"
        )
    if len(match[1]) > MAX_FRONTMATTER_LENGTH:
        raise SkillInvalid(
            f"its frontmatter has more than {MAX_FRONTMATTER_LENGTH} characters; "
            "move the text below it"
        )
    return match[1], text[match.end() :]


def _parse_frontmatter(head: str) -> dict[Any, Any]:
    yaml = YAML(typ="safe", pure=True)
    yaml.max_depth = MAX_DEPTH
    yaml.composer.warn_double_anchors = False
    try:
        fields = yaml.load(head)
    except MarkedYAMLError as exc:
        raise SkillInvalid(_error_message(exc)) from None
    except YAMLError as exc:
        reason = str(exc).partition("\n")[0]
        raise SkillInvalid(f"its frontmatter is not valid YAML: {reason}") from None
    except PARSER_ERRORS:
        raise SkillInvalid(
            "its frontmatter is not valid YAML: a value cannot be read; put it in "
            "quotes"
        ) from None
    if fields is None:
        return {}
    if not isinstance(fields, dict):
        raise SkillInvalid("its frontmatter must be a map such as 'description: …'")
    return fields


def _error_message(exc: MarkedYAMLError) -> str:
    mark = exc.problem_mark or exc.context_mark
    # The mark is zero-based and starts below the first `---`.
    where = f"line {mark.line + 2}: " if mark else ""
    problem = exc.problem or "this cannot be read"
    hint = next((hint for start, hint in PARSER_HINTS.items() if start in problem), "")
    return f"{where}its frontmatter is not valid YAML: {problem}" + (
        f" ({hint})" if hint else ""
    )


def _one_line(fields: dict[Any, Any], key: str) -> str | None:
    """Return a field as one line of text, or None if it is not set."""
    value = fields.get(key)
    if value is None:
        return None
    if not isinstance(value, str):
        raise SkillInvalid(f"its '{key}' must be text; put it in quotes")
    return " ".join(value.split())
