"""LiteLLM's `config.yaml`: what is taken out of it is moved, the rest is reported."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError

from core.text import redaction
from imports import input_files
from imports.errors import SourceUnreadable

MAX_BYTES = 1024 * 1024
MAX_VALUES = 20_000
ENVIRONMENT = "os.environ/"
"""What LiteLLM writes before the name of an environment variable."""
PLACEHOLDER_KEYS = frozenset(
    {"", "anything", "dummy", "empty", "fake", "fake-key", "na", "none", "unused"}
)
"""API keys that are none: clients of local servers have to send something."""
SECRET_HEADER = re.compile("auth|key|token|secret|cookie", re.IGNORECASE)


class Node:
    """A map of the source, and its path."""

    def __init__(self, path: str, data: dict[str, Any]) -> None:
        self.path = path
        self.data = data

    def path_of(self, key: str) -> str:
        return f"{self.path}.{key}" if self.path else key

    def take(self, key: str, kind: type) -> Any:
        """Take a value out; None if there is none of this type. Another one stays."""
        value = self.data.get(key)
        if not isinstance(value, kind) or (value in (True, False) and kind is not bool):
            return None
        return self.data.pop(key)

    def take_number(self, key: str) -> float | None:
        """Take out a number that is not negative, which may be written as a text."""
        try:
            number = float(self.data[key])
        except (KeyError, TypeError, ValueError):
            return None
        if isinstance(self.data[key], bool) or not 0 <= number < float("inf"):
            return None
        del self.data[key]
        return int(number) if number.is_integer() else number

    def drop(self, *keys: str) -> None:
        """Take out what only describes."""
        for key in keys:
            self.data.pop(key, None)


class Source:
    """The maps of a configuration file."""

    def __init__(self, path: Path) -> None:
        self._nodes: list[Node] = []
        self.root = self.node("", _read(path))

    def node(self, path: str, data: dict[str, Any]) -> Node:
        node = Node(path, data)
        self._nodes.append(node)
        return node

    def take_node(self, parent: Node, key: str) -> Node:
        """Take a map out of another; an empty one if there is none."""
        return self.node(parent.path_of(key), parent.take(key, dict) or {})

    def take_nodes(self, parent: Node, key: str) -> Iterator[Node]:
        """Take the maps of a list out."""
        entries = parent.take(key, list) or []
        for number, entry in enumerate(entries):
            path = f"{parent.path_of(key)}[{number}]"
            if isinstance(entry, dict):
                yield self.node(path, entry)
            else:
                self.node(path, {"(no map)": entry})

    def leftovers(self) -> Iterator[tuple[str, str]]:
        """Yield the path and the key of everything that is not taken."""
        for node in self._nodes:
            for key, value in node.data.items():
                if value not in (None, [], {}):
                    yield node.path_of(key), key


def _read(path: Path) -> dict[str, Any]:
    content = input_files.read_file(path, MAX_BYTES)
    try:
        data = YAML(typ="safe", pure=True).load(content)
    except (YAMLError, ValueError, RecursionError) as exc:
        line = ""
        if isinstance(exc, MarkedYAMLError) and exc.problem_mark is not None:
            line = f":{exc.problem_mark.line + 1}"
        reason = getattr(exc, "problem", None) or "it cannot be read"
        raise SourceUnreadable(
            f"{path.name}{line} is not valid YAML: {reason}; correct it first"
        ) from exc
    copied = _Copy(path.name).copy(data)
    if not isinstance(copied, dict) or not isinstance(copied.get("model_list"), list):
        raise SourceUnreadable(
            f"{path.name} has no list 'model_list'; give the config.yaml of LiteLLM's "
            "proxy"
        )
    return copied


class _Copy:
    """Copies data within a limit, because aliases share values.

    Texts are escaped, so that they are none of our placeholders.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._count = 0

    def copy(self, value: Any) -> Any:
        self._count += 1
        if self._count > MAX_VALUES:
            raise SourceUnreadable(f"{self._name} has more than {MAX_VALUES:,} values")
        if isinstance(value, dict):
            return {str(key): self.copy(each) for key, each in value.items()}
        if isinstance(value, str):
            return value.replace("${", "$${")
        return [*map(self.copy, value)] if isinstance(value, list) else value


class Environment:
    """The environment variables that the new file refers to."""

    def __init__(self) -> None:
        self.names: dict[str, str] = {}
        """What to set each to; "" for the same as for LiteLLM."""
        self.given: set[str] = set()
        """Those that LiteLLM's file sets."""
        self._secrets: dict[str, str] = {}

    def add(self, name: str, meaning: str = "") -> str:
        """Return a reference to a variable."""
        if not meaning and name in self.given:
            meaning = f"the value of environment_variables.{name}"
        self.names.setdefault(name, meaning)
        return f"${{{name}}}"

    def resolve(self, value: Any, path: str = "") -> Any:
        """Return data for the new file: with references to variables and secrets."""
        if isinstance(value, dict):
            return {
                key: self.resolve(each, f"{path}_{key}") for key, each in value.items()
            }
        if isinstance(value, list):
            return [
                self.resolve(each, f"{path}_{number}")
                for number, each in enumerate(value, start=1)
            ]
        if not isinstance(value, str):
            return value
        # Of passwords in addresses, tokens in arguments and the like.
        if redaction.redact_patterns(value) != value:
            name = variable_name(path.strip("_"))
            return self.secret(value, name, f"a text that contains a secret ({name})")
        return self.text(value)

    def text(self, value: str) -> str:
        """Return a text with a reference to the variable that it names."""
        is_reference = value.startswith(ENVIRONMENT)
        return self.add(value.removeprefix(ENVIRONMENT)) if is_reference else value

    def secret(self, value: str, name: str, path: str) -> str:
        """Return a reference to a secret; `name` suggests a variable.

        The value itself is neither written nor shown.
        """
        if value.startswith(ENVIRONMENT) or value.lower() in PLACEHOLDER_KEYS:
            return self.text(value)
        if value not in self._secrets:
            free, number = name, 1
            while free in self.names:
                free, number = f"{name}_{number + 1}", number + 1
            self._secrets[value] = free
        return self.add(self._secrets[value], f"the value of {path}")

    def header(self, name: str, value: str, path: str) -> str:
        """Return the value of a header; that of a secret one is a variable."""
        if SECRET_HEADER.search(name):
            return self.secret(value, variable_name(name), f"{path}.{name}")
        return value

    def notes(self) -> Iterator[str]:
        """Yield what to set."""
        same = sorted(name for name, meaning in self.names.items() if not meaning)
        if same:
            yield f"set these environment variables as for LiteLLM: {', '.join(same)}"
        for name, meaning in self.names.items():
            if meaning:
                yield f"set the environment variable {name} to {meaning}"


def variable_name(text: str) -> str:
    """Return a text as the name of an environment variable."""
    letters = [each if each.isascii() and each.isalnum() else "_" for each in text]
    return "".join(letters).upper()
