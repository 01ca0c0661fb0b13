"""Merge the studio's entries into the file's nodes before validation.

Every check then sees the configuration that will run, and a problem inside a studio
entry has a position in that entry: `agent 'bob' in the studio:3:5`.
"""

from collections.abc import Iterable
from functools import lru_cache

from ruamel.yaml.nodes import MappingNode, Node, SequenceNode

from config import errors
from config.errors import ConfigInvalid
from config.loading import reader
from config.loading.constructor import TAG, ValueTree
from config.loading.overlays import Overlay
from config.loading.reader import YamlSource
from config.sections import Problem, Section

AnySection = Section[object]


def override_label(section: AnySection, name: str) -> str:
    """Return the label of a studio entry in messages."""
    return f"{section.noun} '{name}' in the studio"


@lru_cache(maxsize=1024)
def parse_entry(body: str, file: str) -> YamlSource:
    """Return the nodes of an entry; raises `ConfigInvalid` if it is not a map."""
    if not body.strip():
        raise ConfigInvalid([Problem((), f"{file} is empty", errors.NOT_A_MAP)])
    return reader.parse_source(body.encode(), file)


def merge_overlays(
    tree: ValueTree, section: AnySection, node: Node | None, overlays: Iterable[Overlay]
) -> Node | None:
    """Return the node of a section's list with the overlays applied.

    An overridden entry keeps its position; entries that exist only in the studio come
    last.
    """
    own = list_items(node)
    if own is None:
        return node  # Validation refuses the entry for that.
    remaining = {overlay.name: overlay for overlay in overlays}
    nodes: list[Node] = []
    for item in own:
        overlay = remaining.pop(entry_name(tree, item) or "", None)
        nodes += [item] if overlay is None else _overlay_nodes(tree, section, overlay)
    for overlay in remaining.values():
        nodes += _overlay_nodes(tree, section, overlay)
    marked = node or tree.source.root
    return SequenceNode(f"{TAG}seq", nodes, marked.start_mark, marked.end_mark)


def entry_name(tree: ValueTree, item: Node) -> str | None:
    # Reading the entry later reports its problems.
    scratch = ValueTree(tree.source, tree.expander)
    if not isinstance(item, MappingNode):
        return None
    named = scratch.entries(item, ()).get("name")
    return None if named is None else scratch.text(named)


def _overlay_nodes(
    tree: ValueTree, section: AnySection, overlay: Overlay
) -> list[Node]:
    if overlay.body is None:
        return []
    source = parse_entry(overlay.body, override_label(section, overlay.name))
    tree.overlay_sources[id(source.root)] = source
    return [source.root]


def list_items(node: Node | None) -> list[Node] | None:
    """Return the entries of a list, empty if missing; None if it is not a list."""
    if node is None or node.tag == f"{TAG}null":
        return []
    if isinstance(node, SequenceNode) and node.tag == f"{TAG}seq":
        return list(node.value)
    return None
