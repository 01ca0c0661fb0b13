"""Read a file into YAML nodes with positions."""

import os
import stat
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from ruamel.yaml.composer import MaxDepthExceededError
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.nodes import MappingNode
from ruamel.yaml.reader import ReaderError

from config import errors
from config.errors import ConfigInvalid
from config.loading import placeholders, scanner
from config.sections import Position, Problem

MAX_BYTES = 1024 * 1024

PARSER_HINTS = {
    "mapping values are not allowed here": (
        "the line is wrongly indented, or its text contains ': ' and needs quotes"
    ),
    "found character '\\t'": "indent with spaces, not with tabs",
    "found unexpected end of stream": "a quote or a bracket is not closed",
    "found undefined alias": "an alias (*name) needs an anchor (&name) before it",
    "but found another document": "the file must be one document; remove the '---'",
    "could not find expected ':'": "a key must be followed by ': '",
}
"""The parser's messages and their likely meaning."""

Compose = Callable[[str], Any]


@dataclass(frozen=True)
class YamlSource:
    """A file's text with hidden placeholders, and its root map."""

    file: str
    text: str
    root: MappingNode

    def position(self, index: int) -> Position:
        return position(self.file, self.text, index)


def position(file: str, text: str, index: int) -> Position:
    line = text.count("\n", 0, index)
    return Position(file, line + 1, index - text.rfind("\n", 0, index))


def display_path(path: Path) -> str:
    """Return the path for messages, relative if it is below the working directory."""
    here = Path.cwd()
    return str(path.relative_to(here) if path.is_relative_to(here) else path)


def read_file(path: Path) -> bytes:
    """Return the file's content; raises `ConfigInvalid` if it cannot be read."""
    problem = "the file is larger than 1 MiB"
    try:
        with open(path, "rb", opener=_open_nonblocking) as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                problem = "this is not a file but a pipe or a device"
            elif len(content := file.read(MAX_BYTES + 1)) <= MAX_BYTES:
                return content
    except FileNotFoundError:
        problem = "the file does not exist; `coulisse init` creates a starter file"
    except IsADirectoryError:
        problem = "this is not a file but a directory"
    except OSError as exc:
        problem = f"the file cannot be read ({exc.strerror})"
    raise _file_error(display_path(path), problem)


def _open_nonblocking(path: str, flags: int) -> int:
    # Reading a pipe would block until a writer opens it.
    return os.open(path, flags | os.O_NONBLOCK)


def _file_error(
    file: str,
    message: str,
    code: str = errors.UNREADABLE,
    where: tuple[int, int] | None = None,
) -> ConfigInvalid:
    if where is None:
        return ConfigInvalid([Problem((), f"{file}: {message}", code)])
    return ConfigInvalid([Problem((), message, code, Position(file, *where))])


def parse_source(content: bytes, file: str, *, is_cached: bool = False) -> YamlSource:
    """Return the nodes of a YAML file; raises `ConfigInvalid` for invalid YAML.

    Cached ones must not be modified: one change in the studio validates, shows and
    edits the same content, and parsing is most of that work.
    """
    try:
        text = placeholders.hide(content.decode("utf-8-sig"))
    except UnicodeDecodeError as exc:
        line = content.count(b"\n", 0, exc.start) + 1
        column = exc.start - content.rfind(b"\n", 0, exc.start)
        raise _file_error(
            file, "the file is not UTF-8 text; save it as UTF-8", where=(line, column)
        ) from None
    root = _compose(text, file, _compose_cached if is_cached else scanner.compose)
    if root is None:
        raise _file_error(
            file,
            "the file is empty; `coulisse init --force` writes a starter file",
            errors.NOT_A_MAP,
        )
    if not isinstance(root, MappingNode):
        mark = root.start_mark
        raise _file_error(
            file,
            "the file must be a map with keys such as 'agents:' and 'providers:'",
            errors.NOT_A_MAP,
            (mark.line + 1, mark.column + 1),
        )
    return YamlSource(file, text, root)


_compose_cached = lru_cache(maxsize=4)(scanner.compose)


def parse_events(text: str, file: str) -> list[Any]:
    """Return the parser's events of a text; raises `ConfigInvalid` for invalid YAML."""
    events: list[Any] = _compose(placeholders.hide(text), file, scanner.parse_events)
    return events


def _compose(text: str, file: str, compose: Compose) -> Any:
    try:
        return compose(text)
    except (MaxDepthExceededError, RecursionError):
        raise _file_error(
            file,
            f"the document is nested more than {scanner.MAX_DEPTH} levels deep",
            errors.TOO_LARGE,
        ) from None
    except scanner.TooManyNodesError as exc:
        raise _file_error(file, str(exc), errors.TOO_LARGE) from None
    except ReaderError as exc:
        where = position(file, text, exc.position)
        message = (
            f"character U+{ord(text[exc.position]):04X} is not allowed in YAML; "
            "remove it"
        )
        at = (where.line, where.column)
        raise _file_error(file, message, errors.SYNTAX, at) from None
    except MarkedYAMLError as exc:
        raise _syntax_error(exc, file) from None
    except (OverflowError, ValueError):
        message = "not valid YAML: an escape such as \\U0001F600 is not a character"
        raise _file_error(file, message, errors.SYNTAX) from None
    except YAMLError as exc:
        message = str(exc).partition("\n")[0]
        raise _file_error(file, f"not valid YAML: {message}", errors.SYNTAX) from None


def _syntax_error(exc: MarkedYAMLError, file: str) -> ConfigInvalid:
    """Return the parser's message and position; its excerpt may show a secret."""
    mark = exc.problem_mark or exc.context_mark
    where = (mark.line + 1, mark.column + 1) if mark else None
    problem = placeholders.reveal(exc.problem or "the text cannot be parsed")
    hint = next((hint for start, hint in PARSER_HINTS.items() if start in problem), "")
    message = f"not valid YAML: {problem}" + (f" ({hint})" if hint else "")
    return _file_error(file, message, errors.SYNTAX, where)
