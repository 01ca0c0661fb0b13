"""One bounded pass over a YAML text that keeps its tokens, events and nodes.

Scanning is the expensive step: 30 µs for each key and value. So all consumers of
tokens, events and nodes share one pass.
"""

from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.composer import Composer
from ruamel.yaml.error import YAMLError
from ruamel.yaml.events import CollectionEndEvent, CollectionStartEvent, NodeEvent
from ruamel.yaml.nodes import Node
from ruamel.yaml.parser import Parser
from ruamel.yaml.scanner import Scanner

MAX_DEPTH = 64
MAX_SCANNED = 20_000
"""Keys and values per text; the longest example of this project has 709."""


class TooManyNodesError(YAMLError):
    """A text has more keys and values than `MAX_SCANNED`."""

    def __str__(self) -> str:
        return f"the document has more than {MAX_SCANNED:,} keys and values"


class Scan:
    """The tokens, events and counts of a scanned text."""

    def __init__(self) -> None:
        self.tokens: list[Any] = []
        self.events: list[Any] = []
        self.node_count = 0
        """The number of keys and values so far."""
        self.depth = 0

    def add_event(self, event: Any) -> None:
        """Add an event; raises `YAMLError` beyond the limits."""
        self.events.append(event)
        if isinstance(event, NodeEvent):
            self.node_count += 1
            if self.node_count > MAX_SCANNED:
                raise TooManyNodesError
        if isinstance(event, CollectionStartEvent):
            self.depth += 1
            if self.depth > MAX_DEPTH:
                raise YAMLError(
                    f"the document is nested more than {MAX_DEPTH} levels deep"
                )
        elif isinstance(event, CollectionEndEvent):
            self.depth -= 1


class _Scanner(Scanner):
    def get_token(self) -> Any:
        token = super().get_token()
        self.loader.scan_of.tokens.append(token)
        return token


class _Parser(Parser):
    def get_event(self) -> Any:
        event = super().get_event()
        self.loader.scan_of.add_event(event)
        return event


class _RecordingYAML(YAML):
    def __init__(self) -> None:
        super().__init__(typ="safe", pure=True)
        self.Scanner, self.Parser, self.Composer = _Scanner, _Parser, Composer
        self.max_depth = MAX_DEPTH
        self.scan_of = Scan()


def compose(text: str) -> tuple[Node | None, Scan]:
    """Return the nodes of a one-document text; raises the parser's errors."""
    yaml = _RecordingYAML()
    yaml.composer.warn_double_anchors = False
    root: Node | None = yaml.compose(text)
    return root, yaml.scan_of


def scan(text: str) -> Scan:
    """Return the scan of a text; aliases may refer to anchors outside it."""
    yaml = _RecordingYAML()
    for _ in yaml.parse(text):
        pass
    return yaml.scan_of
