"""Serialize plain data as YAML text, for new values in a file."""

from collections.abc import Callable
from io import StringIO
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.nodes import ScalarNode
from ruamel.yaml.representer import SafeRepresenter

from config.loading import placeholders

UNLIMITED_WIDTH = 2**20
"""Characters per line, so that no line is folded."""


class _Representer(SafeRepresenter):
    """Keeps the order of keys and writes multi-line texts as blocks."""

    flow: bool = False

    def represent_str(self, data: str) -> ScalarNode:
        style = None
        if "\n" in data:
            style = '"' if self.flow or not _fits_a_block(data) else "|"
        node: ScalarNode = self.represent_scalar(
            "tag:yaml.org,2002:str", data, style=style
        )
        return node


_Representer.add_representer(str, _Representer.represent_str)


class _FlowRepresenter(_Representer):
    flow = True


_FlowRepresenter.add_representer(str, _FlowRepresenter.represent_str)


def _fits_a_block(text: str) -> bool:
    """Return whether a block preserves the text: ruamel.yaml breaks some texts."""
    return (
        text[0] not in " \n\t"
        and not text.endswith("\n\n")
        and all(c == "\n" or c.isprintable() for c in text)
        and not any(line != line.rstrip() for line in text.split("\n"))
    )


def dump_block(data: Any) -> str:
    """Return data in block style, without a last line break; placeholders stay."""
    return _dump(data, is_flow=False)


def dump_flow(data: Any) -> str:
    """Return data in flow style, on one line."""
    if isinstance(data, dict | list):
        return _dump(data, is_flow=True)
    # A scalar dumped alone might use a style that ends early between commas.
    return _dump([data], is_flow=True)[1:-1]


def dump_key(name: str) -> str:
    """Return a name as a YAML key."""
    return _dump({name: None}, is_flow=False).removesuffix(": null")


def _dump(data: Any, *, is_flow: bool) -> str:
    yaml = YAML(typ="safe", pure=True)
    yaml.Representer = _FlowRepresenter if is_flow else _Representer
    yaml.default_flow_style = is_flow
    yaml.width = UNLIMITED_WIDTH
    yaml.indent(mapping=2, sequence=4, offset=2)
    # Made on first sight, by what is set before.
    yaml.representer.sort_base_mapping_type_on_output = False
    yaml.representer.ignore_aliases = lambda data: True
    out = StringIO()
    yaml.dump(_map_texts(data, placeholders.hide), out)
    text = out.getvalue().removesuffix("\n").removesuffix("\n...")
    return placeholders.reveal(_dedent_list(text))


def _dedent_list(text: str) -> str:
    """Dedent a list's lines to the first column: the emitter starts at the third."""
    return text.removeprefix("  ").replace("\n  ", "\n") if text[:3] == "  -" else text


def _map_texts(data: Any, change: Callable[[str], str]) -> Any:
    if isinstance(data, dict):
        return {
            _map_texts(name, change): _map_texts(entry, change)
            for name, entry in data.items()
        }
    if isinstance(data, list):
        return [_map_texts(entry, change) for entry in data]
    return change(data) if isinstance(data, str) else data
