"""The studio's overrides of sections, put into the text of the file.

Agents, judges, experiments and smoke tests are merged as nodes instead
(`config/loading/overlay_merge.py`). The texts here contain masks for the secrets of the
file: each process restores them from its own file, and the database has none.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import lru_cache

from config import sections
from config.editing import blocks, content_patch, document
from config.editing.document import KeyPath
from config.loading.constructor import ValueTree, verbatim_tree
from config.loading.overlays import Overlay, Overlays
from config.sections import Position, Problem


def overlays_of_sections(overlays: Iterable[Overlay]) -> list[Overlay]:
    """Return the overlays that are not merged as nodes."""
    registered = sections.registered_sections()
    return [
        overlay
        for overlay in overlays
        if overlay.section in registered
        and not registered[overlay.section].is_overridable
    ]


def without_sections(overlays: Overlays) -> Overlays:
    """Return the overlays that are merged as nodes."""
    of_sections = overlays_of_sections(overlays.entries)
    rest = tuple(each for each in overlays.entries if each not in of_sections)
    return Overlays(overlays.version, rest)


def key_path(section: str, name: str) -> KeyPath:
    """Return the path of a section, or of an entry of a map."""
    has_entries = sections.registered_sections()[section].has_named_entries
    return (section, name) if has_entries else (section,)


def label(section: str, name: str) -> str:
    """Return the label of an override in messages."""
    return f"'{'.'.join(key_path(section, name))}' in the studio"


def merge(content: bytes, overlays: Iterable[Overlay], file: str = "") -> bytes:
    """Return a file's content with overlays of sections in it.

    Raises `ConfigInvalid` for an overlay that does not fit the file.
    """
    texts = ((key_path(o.section, o.name), o.body or "") for o in overlays)
    return _put_texts(content, tuple(texts), file)


@lru_cache(maxsize=4)
def _put_texts(
    content: bytes, texts: tuple[tuple[KeyPath, str], ...], file: str
) -> bytes:
    if not texts:
        return content
    doc = document.parse_document(content, file)
    return content_patch.put_texts(doc, dict(texts))


def relocate_problems(
    problems: Iterable[Problem],
    merged: bytes,
    content: bytes,
    overlays: Sequence[Overlay],
    file: str,
) -> list[Problem]:
    """Return the problems of a merged content, placed in an overlay or in the file."""
    doc = document.parse_document(merged, file)
    labels = {key_path(o.section, o.name): label(o.section, o.name) for o in overlays}
    positions = _read_positions(content, file)

    def relocate(problem: Problem) -> Problem:
        position = problem.position
        if position is None or position.file != file:
            return problem
        own = next((p for p in labels if problem.location[: len(p)] == p), None)
        if own is None:
            return replace(problem, position=positions.position(problem.location))
        first, columns = blocks.line_of(doc, own) or (position.line, 0)
        line, column = position.line - first + 1, position.column - columns
        place = Position(labels[own], max(1, line), max(1, column))
        return replace(problem, position=place)

    return [relocate(problem) for problem in problems]


def _read_positions(content: bytes, file: str) -> ValueTree:
    tree = verbatim_tree(document.parse_document(content, file).source)
    tree.value(tree.source.root, ())
    return tree
