"""Change data in a YAML text by ruamel.yaml's round trip, and dump new data.

Comments, order, quotes, anchors, aliases and `<<` stay. The resolver leaves plain words
as they are written, so `0o7`, `1_000`, `~` and `True` stay, too: other modules decide
what a value means, from the same text.
"""

import re
from io import StringIO
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedMap, CommentedSeq
from ruamel.yaml.nodes import ScalarNode
from ruamel.yaml.resolver import VersionedResolver
from ruamel.yaml.scalarstring import (
    DoubleQuotedScalarString,
    LiteralScalarString,
    SingleQuotedScalarString,
)
from ruamel.yaml.tag import Tag

from config.editing.data_comparison import is_same, match_entries
from config.loading import placeholders

TEXT_TAG = Tag(suffix="tag:yaml.org,2002:str")
UNLIMITED_WIDTH = 2**20
"""Characters per line, so that no line is folded."""
LIST_BELOW_KEY = re.compile(
    r"^( *)[^\s#-].*:[^\n:]*\n(?: *#.*\n)*\1( *)- ", re.MULTILINE
)
MAP_BELOW_KEY = re.compile(
    r"^( *)[^\s#-].*:[^\n:]*\n(?: *#.*\n)*\1( +)[^\s#-]", re.MULTILINE
)


class _PlainResolver(VersionedResolver):
    """Takes every plain scalar for text, except `<<` and an empty one."""

    def resolve(self, kind: Any, value: Any, implicit: Any) -> Any:
        if kind is ScalarNode and implicit[0] and value not in ("", "<<"):
            return TEXT_TAG
        return super().resolve(kind, value, implicit)


def _yaml(like: str = "", width: int = UNLIMITED_WIDTH) -> YAML:
    """Return a round trip with the indentation of a text."""
    yaml = YAML(typ="rt")
    yaml.Resolver = _PlainResolver
    yaml.preserve_quotes = True
    yaml.width = width
    below_map, below_list = MAP_BELOW_KEY.search(like), LIST_BELOW_KEY.search(like)
    offset = len(below_list[2]) if below_list else 2
    yaml.indent(len(below_map[2]) if below_map else 2, offset + 2, offset)
    return yaml


def change_text(text: str, path: tuple[str, ...], old: Any, new: Any) -> str:
    """Return a text with the value at a path changed from `old` to `new`.

    Raises ruamel's errors, also if the text has an alias without its anchor.
    """
    yaml = _yaml(text)
    yaml.composer.warn_double_anchors = False
    root = above = yaml.load(placeholders.hide(text))
    if not path:
        return _dump(yaml, _merge(root, old, new))
    *steps, last = map(placeholders.hide, path)
    for step in steps:
        above = above[step]
    above[last] = _merge(above[last], old, new)
    return _dump(yaml, root)


def _dump(yaml: YAML, data: Any) -> str:
    out = StringIO()
    yaml.dump(data, out)
    return placeholders.reveal(out.getvalue().removesuffix("\n"))


def _merge(value: Any, old: Any, new: Any) -> Any:
    """Return a loaded value changed to new data; what is equal stays as it is."""
    if is_same(old, new):
        return value
    if isinstance(value, CommentedMap) and isinstance(new, dict):
        return _merge_map(value, old, new)
    if isinstance(value, CommentedSeq) and isinstance(new, list):
        return _merge_list(value, old, new)
    is_quoted = isinstance(value, SingleQuotedScalarString | DoubleQuotedScalarString)
    if is_quoted and isinstance(new, str) and "\n" not in new:
        return type(value)(placeholders.hide(new))
    return _styled(new)


def _merge_map(value: CommentedMap, old: dict[str, Any], new: dict[str, Any]) -> Any:
    for key in old.keys() - new.keys():
        del value[placeholders.hide(key)]
    for key, item in new.items():
        hidden = placeholders.hide(key)
        if key not in old:
            value[hidden] = _styled(item)
        elif not is_same(old[key], item):
            value[hidden] = _merge(value[hidden], old[key], item)
    return value


def _merge_list(value: CommentedSeq, old: list[Any], new: list[Any]) -> Any:
    pairs = match_entries(old, new)
    merged = CommentedSeq(
        _styled(item) if index is None else _merge(value[index], old[index], item)
        for index, item in zip(pairs, new, strict=True)
    )
    comments = {
        position: value.ca.items[index]
        for position, index in enumerate(pairs)
        if index in value.ca.items
    }
    value.copy_attributes(merged)
    merged.ca.items.clear()
    merged.ca.items.update(comments)
    return merged


def _styled(data: Any) -> Any:
    """Return plain data as ruamel's types; a text in the style that keeps it text."""
    if isinstance(data, dict):
        return CommentedMap(
            (_styled(key), _styled(value)) for key, value in data.items()
        )
    if isinstance(data, list):
        return CommentedSeq(map(_styled, data))
    if data is None or isinstance(data, bool):
        return {None: "null", True: "true", False: "false"}[data]
    if not isinstance(data, str):
        return str(data)
    text = placeholders.hide(data)
    is_printable = all(
        c in "\n\t" or c.isprintable() or ord(c) >= placeholders.HIDDEN_BASE
        for c in text
    )
    if is_printable and "\n" in text and _fits_a_block(text):
        return LiteralScalarString(text)
    if "\n" in text or not is_printable:
        return DoubleQuotedScalarString(text)
    if VersionedResolver((1, 2)).resolve(ScalarNode, text, (True, False)) != TEXT_TAG:
        return SingleQuotedScalarString(text)
    return text


def _fits_a_block(text: str) -> bool:
    """Return whether a block preserves the text: ruamel.yaml breaks some texts."""
    return (
        text[0] not in " \n\t"
        and not text.endswith("\n\n")
        and not any(line != line.rstrip() for line in text.split("\n"))
    )


def dump_block(data: Any, *, width: int = UNLIMITED_WIDTH) -> str:
    """Return data in block style, without a last line break; placeholders stay."""
    if not isinstance(data, dict | list):
        return dump_flow(data)
    yaml = _yaml(width=width)
    if isinstance(data, list):
        yaml.indent(2, 2, 0)
    return _dump(yaml, _styled(data))


def dump_flow(data: Any) -> str:
    """Return data in flow style, on one line."""
    is_scalar = not isinstance(data, dict | list)
    # A scalar dumped alone might use a style that ends early between commas.
    styled = _styled([data] if is_scalar else data)
    styled.fa.set_flow_style()
    text = _dump(_yaml(), styled)
    return text[1:-1] if is_scalar else text


def dump_key(name: str) -> str:
    return _dump(_yaml(), CommentedMap({_styled(name): "x"})).removesuffix(": x")
