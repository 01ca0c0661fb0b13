"""Compose the nodes of a YAML text within limits of size and depth."""

from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.composer import Composer, MaxDepthExceededError
from ruamel.yaml.error import YAMLError
from ruamel.yaml.events import CollectionEndEvent, CollectionStartEvent, NodeEvent
from ruamel.yaml.nodes import Node
from ruamel.yaml.parser import Parser

MAX_DEPTH = 64
MAX_SCANNED = 20_000
"""Keys and values per text; the longest example of this project has 709."""


class TooManyNodesError(YAMLError):
    """A text has more keys and values than `MAX_SCANNED`."""

    def __str__(self) -> str:
        return f"the document has more than {MAX_SCANNED:,} keys and values"


class _Parser(Parser):
    """Stops long before a huge tree exists."""

    node_count = depth = 0

    def get_event(self) -> Any:
        event = super().get_event()
        if isinstance(event, NodeEvent):
            self.node_count += 1
            if self.node_count > MAX_SCANNED:
                raise TooManyNodesError
        self.depth += isinstance(event, CollectionStartEvent)
        self.depth -= isinstance(event, CollectionEndEvent)
        if self.depth > MAX_DEPTH:
            raise MaxDepthExceededError
        return event


class _LimitedYAML(YAML):
    def __init__(self) -> None:
        super().__init__(typ="safe", pure=True)
        self.Parser, self.Composer = _Parser, Composer


def compose(text: str) -> Node | None:
    """Return the nodes of a one-document text; raises the parser's errors."""
    yaml = _LimitedYAML()
    yaml.composer.warn_double_anchors = False
    root: Node | None = yaml.compose(text)
    return root


def parse_events(text: str) -> list[Any]:
    """Return the events of a text; aliases may refer to anchors outside it."""
    return list(_LimitedYAML().parse(text))
