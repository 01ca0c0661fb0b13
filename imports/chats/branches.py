"""The current branch of a conversation that is stored as a tree of messages."""

from typing import Any

from core.errors import Invalid
from imports.chats import conversations


def read_branch(
    nodes: Any, last: Any, *, parent: str
) -> list[tuple[str, dict[str, Any]]]:
    """Return the ids and nodes from the beginning of a conversation to its last one.

    `nodes` has them by their ids; `parent` names the field with that of the node
    before. Raises `Invalid` if they are not a tree.
    """
    if not isinstance(nodes, dict):
        raise Invalid("its messages are missing")
    if not nodes:
        return []
    branch: list[tuple[str, dict[str, Any]]] = []
    while last is not None:
        node = nodes.get(last) if isinstance(last, str) else None
        if not isinstance(node, dict):
            raise Invalid("a message refers to one that is missing")
        if len(branch) == len(nodes):
            raise Invalid("its messages refer to each other in a circle")
        branch.append((conversations.read_id(last, "message id"), node))
        last = node.get(parent)
    if not branch:
        raise Invalid("its current message is not named")
    return branch[::-1]
