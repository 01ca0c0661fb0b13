"""`${…}` in the YAML: hidden from the parser, then expanded in what it parsed.

The reference expands before parsing, so that a placeholder may stand anywhere. But a
value must never change the structure: a secret with `: ` or a newline in it is a value.
So before parsing, each character of a placeholder is mapped one-to-one into a
private-use block of Unicode, which has no meaning in YAML and keeps every column. In
the parsed strings these characters identify the placeholders to expand.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from config import errors
from config.validation.suggestions import did_you_mean

# The last private-use plane has room for every character of the basic plane; the
# others (emoji) mean nothing to YAML and stay as they are.
HIDDEN_BASE = 0x100000
RESERVED_CHARACTERS = "\U00100000-\U0010ffff"

TOKEN = re.compile(
    rf"""\$\$\{{(?:[^{{}}"'\r\n{RESERVED_CHARACTERS}]*\}})?|\$\{{(?P<rest>[^}}\r\n{RESERVED_CHARACTERS}]*)\}}?"""
)
"""An escaped or a live placeholder; without a `}` it ends where its line does."""
OPENING = re.compile(r"\$?\$\{")
"""The start of a placeholder."""

NAME_PATTERN = re.compile(r"(?P<scope>vars\.)?(?P<name>[\w.-]+?)(:-(?P<default>.*))?")
ENVIRONMENT_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
MAX_FAILURES = 100
"""Per text; later placeholders are not examined."""
MAX_EXPANDED = 8 * 1024 * 1024
"""Characters per document: a snippet can be used a hundred thousand times."""
ESCAPE_HINT = "$${ for a literal ${"


def _hide(text: str) -> str:
    return "".join(chr(HIDDEN_BASE + ord(c)) if ord(c) < 0x10000 else c for c in text)


def reveal(text: str) -> str:
    if text.isascii():
        return text  # The common case.
    return "".join(
        chr(ord(c) - HIDDEN_BASE) if ord(c) >= HIDDEN_BASE else c for c in text
    )


def _hidden_token() -> re.Pattern[str]:
    escape, opening, closing = _hide("$${"), _hide("${"), _hide("}")
    before, after = chr(ord(closing) - 1), chr(ord(closing) + 1)
    inside = f"[\U00010000-{before}{after}-\U0010ffff]"
    plain = _hide("{\"'")
    return re.compile(
        f"{escape}(?:(?:(?![{plain}]){inside})*{closing})?"
        f"|{opening}(?P<rest>{inside}*){closing}?"
    )


HIDDEN_TOKEN = _hidden_token()
"""`TOKEN` for hidden text."""
HIDDEN_OPENING = re.compile(f"{_hide('$')}?{_hide('${')}")


def hide(text: str) -> str:
    """Return the text with its placeholders hidden from the parser.

    The length stays the same, and so do lines and columns.
    """
    pieces, at = [], 0
    for start, end in spans(text):
        pieces += [text[at:start], _hide(text[start:end])]
        at = end
    return "".join([*pieces, text[at:]])


def spans(text: str) -> Iterator[tuple[int, int]]:
    """Yield the spans of the placeholders in a text, escaped and unclosed ones too."""
    return _spans(text, TOKEN, OPENING, 0)


def hidden_spans(text: str, start: int = 0) -> Iterator[tuple[int, int]]:
    """Yield the spans of the placeholders in a hidden text."""
    return _spans(text, HIDDEN_TOKEN, HIDDEN_OPENING, start)


def _spans(
    text: str, token: re.Pattern[str], opening: re.Pattern[str], start: int
) -> Iterator[tuple[int, int]]:
    """Yield the spans of placeholders; an unclosed one is its `${` alone.

    No `}` follows an unclosed placeholder, so all later ones are unclosed, too. Thus
    each character is read at most twice, whatever their number.
    """
    for found in token.finditer(text, start):
        if found["rest"] is None or found.end() > found.end("rest"):
            yield found.span()
        else:
            yield from (o.span() for o in opening.finditer(text, *found.span()))


class PlaceholderFailure(Exception):
    index: int
    """The placeholder's index in the text, from 0."""

    def __init__(self, message: str, code: str) -> None:
        self.message, self.code = message, code


@dataclass
class Expander:
    """Replaces placeholders by their values, in one pass."""

    environment: Mapping[str, str]
    variables: Mapping[str, str] | None = None
    """The values under `vars:`; None while they are read: `${vars.x}` is then text."""
    failures: list[PlaceholderFailure] = field(default_factory=list)
    """The failures in the last text."""
    expanded: int = 0
    """The number of characters expanded so far."""

    def expand(self, text: str) -> str:
        """Return the text with placeholders expanded; failed ones become empty."""
        self.failures = []
        pieces, end, indent = [], 0, ""
        for index, (start, stop) in enumerate(hidden_spans(text)):
            newline = text.rfind("\n", end, start)
            if index == 0 or newline >= 0:
                # A placeholder is on one line: the first of the line gives the
                # indentation.
                line = text[newline + 1 : start]
                indent = line[: len(line) - len(line.lstrip(" \t"))]
            token = reveal(text[start:stop])
            pieces += [text[end:start], self._value(token, index, indent)]
            end = stop
            if len(self.failures) == MAX_FAILURES:
                break
        return "".join([*pieces, text[end:]])

    def _value(self, token: str, index: int, indent: str) -> str:
        if token.startswith("$$"):
            return token[1:]
        try:
            return self._resolve(token, indent)
        except PlaceholderFailure as failure:
            failure.index = index
            self.failures.append(failure)
            return ""

    def _resolve(self, token: str, indent: str) -> str:
        scope, name, default = _split_token(token)
        if scope and self.variables is None:
            return token
        source = self.variables if scope else self.environment
        value = (source or {}).get(name)
        if default is not None and not value:
            return default
        if value is None:
            raise self._unknown(name, is_var=scope)
        indented = value.count("\n") * len(indent) if scope else 0
        self.expanded += len(value) + indented
        if self.expanded > MAX_EXPANDED:
            raise PlaceholderFailure(
                f"placeholders expand the document by more than {MAX_EXPANDED:,} "
                "characters; use fewer placeholders",
                errors.TOO_LARGE,
            )
        # A snippet takes the indentation of its target; blank lines stay blank.
        return re.sub(r"\n(?=[^\n])", "\n" + indent, value) if scope else value

    def _unknown(self, name: str, *, is_var: bool) -> PlaceholderFailure:
        known = self.variables or {}
        if is_var:
            message = f"variable '{name}' is not defined under vars:"
            hint = did_you_mean(name, known)
            return PlaceholderFailure(f"{message}{hint}", errors.UNKNOWN_VAR)
        hint = f"; did you mean '${{vars.{name}}}'?" if name in known else ""
        return PlaceholderFailure(
            f"environment variable '{name}' is not set; set it, or give a default "
            f"with ${{{name}:-default}}{hint}",
            errors.UNSET_VARIABLE,
        )


@dataclass
class VerbatimExpander(Expander):
    """Leaves placeholders as they are written."""

    def expand(self, text: str) -> str:
        return reveal(text)


def _split_token(token: str) -> tuple[bool, str, str | None]:
    if not token.endswith("}"):
        raise PlaceholderFailure(
            f"'${{' has no closing '}}' on its line; add it, or write {ESCAPE_HINT}",
            errors.BAD_PLACEHOLDER,
        )
    match = NAME_PATTERN.fullmatch(token[2:-1])
    if (
        match is None
        or "${" in (match["default"] or "")
        or not (match["scope"] or ENVIRONMENT_NAME.fullmatch(match["name"]))
    ):
        raise PlaceholderFailure(
            f"'{token}' is not a valid placeholder; write ${{NAME}}, "
            f"${{NAME:-default}} or ${{vars.name}}, or {ESCAPE_HINT}",
            errors.BAD_PLACEHOLDER,
        )
    return bool(match["scope"]), match["name"], match["default"]
