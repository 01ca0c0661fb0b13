"""`${…}` in the YAML: hidden from the parser, then expanded in what it parsed.

The reference expands before parsing, so that a value may stand anywhere. A value must
never change the structure, though: a secret with `: ` or a newline in it is a value.
So before parsing, every character of a placeholder is moved one-to-one into a private
block of Unicode, where nothing means anything to YAML and every column stays what it
was; in the parsed strings the placeholders are found by that and replaced.
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
"""How each begins."""

NAME_PATTERN = re.compile(r"(?P<scope>vars\.)?(?P<name>[\w.-]+?)(:-(?P<default>.*))?")
ENVIRONMENT_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
MAX_FAILURES = 100
"""In one text; what comes after them is not looked at."""
MAX_EXPANDED = 8 * 1024 * 1024
"""Characters of one document: a snippet can be named a hundred thousand times."""
ESCAPE_HINT = "write $${ for a literal ${"


def _hide(text: str) -> str:
    return "".join(chr(HIDDEN_BASE + ord(c)) if ord(c) < 0x10000 else c for c in text)


def reveal(text: str) -> str:
    """Return the text as it was written."""
    if text.isascii():
        return text  # As most is.
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
"""`TOKEN` once hidden."""
HIDDEN_OPENING = re.compile(f"{_hide('$')}?{_hide('${')}")


def hide(text: str) -> str:
    """Return the text with its placeholders out of the parser's sight.

    The length is the same, so lines and columns are too.
    """
    pieces, at = [], 0
    for start, end in _spans(text, TOKEN, OPENING, 0):
        pieces += [text[at:start], _hide(text[start:end])]
        at = end
    return "".join([*pieces, text[at:]])


def hidden_spans(text: str, start: int = 0) -> Iterator[tuple[int, int]]:
    """Yield where the placeholders of a hidden text begin and end."""
    return _spans(text, HIDDEN_TOKEN, HIDDEN_OPENING, start)


def _spans(
    text: str, token: re.Pattern[str], opening: re.Pattern[str], start: int
) -> Iterator[tuple[int, int]]:
    """Yield where placeholders begin and end; one without a `}` is its `${` alone.

    What follows an open one holds no `}`, so all that begin in it are open, too: each
    character is looked at twice at most, however many there are.
    """
    for found in token.finditer(text, start):
        if found["rest"] is None or found.end() > found.end("rest"):
            yield found.span()
        else:
            yield from (o.span() for o in opening.finditer(text, *found.span()))


@dataclass(frozen=True, slots=True)
class PlaceholderFailure:
    """A placeholder that stands for nothing."""

    index: int
    """Which placeholder of the text, counted from 0."""
    message: str
    code: str


class _UnresolvedError(Exception):
    def __init__(self, message: str, code: str) -> None:
        self.message, self.code = message, code


@dataclass
class Expander:
    """Replaces placeholders by what they stand for, in one pass."""

    environment: Mapping[str, str]
    variables: Mapping[str, str] | None = None
    """What is under `vars:`; None while that is read: `${vars.x}` is then text."""
    failures: list[PlaceholderFailure] = field(default_factory=list)
    """What went wrong in the last text."""
    expanded: int = 0
    """Characters that placeholders stood for until now."""

    def expand(self, text: str) -> str:
        """Return the text with placeholders replaced, by nothing where one fails."""
        self.failures = []
        pieces, end, indent = [], 0, ""
        for index, (start, stop) in enumerate(hidden_spans(text)):
            newline = text.rfind("\n", end, start)
            if index == 0 or newline >= 0:
                # A placeholder is on one line: of several there the first says it.
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
        except _UnresolvedError as unresolved:
            self.failures.append(
                PlaceholderFailure(index, unresolved.message, unresolved.code)
            )
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
            raise self._unknown_var(name) if scope else self._unset(name)
        indented = value.count("\n") * len(indent) if scope else 0
        self.expanded += len(value) + indented
        if self.expanded > MAX_EXPANDED:
            raise _UnresolvedError(
                "placeholders make this document unreasonably large", errors.TOO_LARGE
            )
        # A snippet lines up with the place it is put in; blank lines stay blank.
        return re.sub(r"\n(?=[^\n])", "\n" + indent, value) if scope else value

    def _unset(self, name: str) -> _UnresolvedError:
        in_vars = name in (self.variables or {})
        hint = f"; did you mean '${{vars.{name}}}'?" if in_vars else ""
        return _UnresolvedError(
            f"environment variable '{name}' is not set; set it, or write "
            f"${{{name}:-default}} to do without{hint}",
            errors.UNSET_VARIABLE,
        )

    def _unknown_var(self, name: str) -> _UnresolvedError:
        hint = did_you_mean(name, self.variables or ())
        return _UnresolvedError(
            f"'{name}' is not under vars:{hint}", errors.UNKNOWN_VAR
        )


def _split_token(token: str) -> tuple[bool, str, str | None]:
    if not token.endswith("}"):
        raise _UnresolvedError(
            f"'${{' has no closing '}}' on its line; {ESCAPE_HINT}",
            errors.BAD_PLACEHOLDER,
        )
    match = NAME_PATTERN.fullmatch(token[2:-1])
    if match is None or "${" in (match["default"] or ""):
        raise _malformed_error(token)
    if not match["scope"] and not ENVIRONMENT_NAME.fullmatch(match["name"]):
        raise _malformed_error(token)
    return bool(match["scope"]), match["name"], match["default"]


def _malformed_error(token: str) -> _UnresolvedError:
    return _UnresolvedError(
        f"'{token}' is not a placeholder: those are ${{NAME}}, ${{NAME:-default}} and "
        f"${{vars.name}}; {ESCAPE_HINT}",
        errors.BAD_PLACEHOLDER,
    )
