"""Edits of the file through the studio: read, spliced, judged whole, written.

A place is named by the keys that lead to it: `("memory",)`, `("providers", "openai")`,
in a list by the name of its entry. What is shown has masks in place of secrets, and
what is given back may have them; `config/masks.py` knows what they stand for.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from django.conf import settings
from ruamel.yaml.error import MarkedYAMLError, YAMLError

from config import (
    disk,
    document,
    effective,
    emission,
    errors,
    held,
    kept,
    live,
    loader,
    masks,
    merging,
    placeholders,
    reader,
    splicing,
)
from config.document import Document
from config.errors import (
    ConfigInvalid,
    EntryTaken,
    EntryUnknown,
    FileChanged,
)
from config.layout import Entry, Unplaceable
from config.overlays import NONE
from config.sections import Config, Location, Position, Problem
from config.splicing import Edit

Place = tuple[str, ...]
Change = Callable[[Document], bytes]


@dataclass(frozen=True)
class File:
    """The file as it is now, without its secrets."""

    content: bytes
    path: Path

    @property
    def version(self) -> str:
        """Tells this content from others; given back with a change of it."""
        return loader.digest(self.content)

    @cached_property
    def _whole(self) -> Document:
        return _readable(self.content)

    @property
    def is_broken(self) -> bool:
        """Whether it cannot be parsed, and what is shown is what was valid last."""
        return self._whole.content is not self.content

    @property
    def text(self) -> str:
        """All of it; raises `ConfigInvalid` when it cannot be parsed."""
        return splicing.apply(self._whole.text, masks.edits(self._whole))

    @property
    def data(self) -> dict[str, Any]:
        """What it says, placeholders as written; raises `ConfigInvalid` likewise."""
        return masks.data(self._whole)

    def has(self, place: Place) -> bool:
        """Tell whether the file says anything there."""
        return _find(self._whole, place) is not None

    def text_at(self, place: Place) -> str:
        """Return what is written there, from the first column; "" for nothing."""
        return _shown(self._whole, place)

    def data_at(self, place: Place) -> Any:
        """Return what it says there; None for nothing."""
        location = _location(self._whole, place)
        return None if location is None else masks.at(self.data, location)

    def line_of(self, place: Place) -> tuple[int, int] | None:
        """Return at which line `text_at` begins, and how many columns it leaves out."""
        entry = _find(self._whole, place)
        return splicing.first_line(self._whole.layout, entry) if entry else None


def path() -> Path:
    """Return where the file is that this process runs with."""
    config = live.in_force()
    return config.path if config else Path(settings.COULISSE_CONFIG)


def read() -> File:
    """Return the file; raises `ConfigInvalid` when it cannot be read."""
    return File(reader.read(path()), path())


def fault(file: File) -> ConfigInvalid | None:
    """Return why a file cannot be parsed, if it cannot."""
    try:
        _document(file.content)
    except ConfigInvalid as exc:
        return exc
    return None


# Changes. Each returns the file as it is then.


def write(text: str, *, version: str | None = None) -> File:
    """Give the file another text."""
    content = text.encode()

    def change(before: bytes) -> bytes:
        old = _readable(before)
        same = old.content == before and masks.shown(old) == content
        return before if same else masks.kept(content, old, _label())

    return _change_content(change, version)


def write_data(data: Any, *, version: str | None = None) -> File:
    """Have the file say something else; what stays keeps its comments."""
    if not isinstance(data, dict):
        raise _misplaced("the file is a map of keys such as 'agents' and 'providers'")
    return _change(lambda doc: _merged(doc, (), data), version)


def put(place: Place, text: str, *, version: str | None = None) -> File:
    """Write a text at a place, as it is; one that is empty takes the place away."""
    return _change(lambda doc: _spliced(doc, place, text), version)


def put_data(place: Place, data: Any, *, version: str | None = None) -> File:
    """Have a place say something else; what stays keeps its comments."""
    return _change(lambda doc: _merged(doc, place, data), version)


def add(place: Place, text: str, *, version: str | None = None) -> File:
    """Write an entry that is not there yet; raises `EntryTaken` when it is."""

    def added(doc: Document) -> bytes:
        if _find(doc, place) is not None:
            raise EntryTaken(f"there is a '{place[-1]}' under {place[0]}: already")
        return _spliced(doc, place, text)

    return _change(added, version)


def remove(place: Place, *, version: str | None = None) -> File:
    """Take an entry away; raises `EntryUnknown` when there is none."""
    return _change(lambda doc: _removed(doc, place), version)


def check(text: str) -> list[Problem]:
    """Return what is wrong with a text that may become the file's."""
    try:
        old = _readable(reader.read(path()))
        _judged(masks.kept(text.encode(), old, _label()))
    except ConfigInvalid as exc:
        return list(exc.problems)
    return []


def check_at(place: Place, text: str) -> list[Problem]:
    """Return what is wrong with a text that may be put at a place."""
    try:
        doc = _document(read().content)
        _judged(_spliced(doc, place, text))
    except ConfigInvalid as exc:
        return relative(exc.problems, place, text)
    return []


def relative(problems: Iterable[Problem], place: Place, text: str) -> list[Problem]:
    """Return problems with the lines of a text that was to be put at a place.

    Those elsewhere in the file say so, and have no position.
    """
    first = read().line_of(place)
    own = ".".join(place)
    count = text.count("\n") + 1

    def moved(problem: Problem) -> Problem:
        where = problem.position
        if where is None or where.file == own:
            return problem
        line = where.line - (first[0] - 1 if first else 0)
        if first is None or where.file != _label() or not 1 <= line <= count:
            return replace(problem, message=str(problem), position=None)
        column = max(1, where.column - first[1])
        return replace(problem, position=Position(own, line, column))

    return [moved(problem) for problem in problems]


def named(text: str, fields: Sequence[str]) -> tuple[str, str]:
    """Return an entry's name, the first of these fields it has, and the rest of it."""
    doc = document.of(text.encode(), "body")
    field = next((f for f in fields if isinstance(doc.data.get(f), str)), None)
    if field is None:
        raise _misplaced(f"the entry has no '{fields[0]}'", errors.MISSING)
    if len(doc.data) == 1:
        return doc.data[field], "{}"
    edits = splicing.drop(doc.layout, doc.entries[(field,)])
    return doc.data[field], splicing.apply(doc.text, edits)


def _readable(content: bytes) -> Document:
    """Return the file, or where it cannot be parsed what was valid last."""
    try:
        return _document(content)
    except ConfigInvalid:
        last = kept.read()
        if last is None:
            raise
        return _document(last)


def _change(change: Change, version: str | None) -> File:
    return _change_content(lambda content: change(_document(content)), version)


def _change_content(change: Callable[[bytes], bytes], version: str | None) -> File:
    file = path()
    with disk.lock():
        before = reader.read(file)
        if version is not None and version != loader.digest(before):
            raise FileChanged
        after = change(before)
        if after != before:
            held.check(_in_force(before), _judged(after))
            disk.replace(file, after)
    return File(after, file)


def _judged(content: bytes) -> Config:
    """Return the configuration a content makes; raises `ConfigInvalid`."""
    if len(content) > reader.MAX_BYTES:
        raise _misplaced("the file would be larger than 1 MiB", errors.UNREADABLE)
    config = live.in_force()
    return effective.of(content, path(), config.overlays if config else NONE)


def _in_force(content: bytes) -> Config:
    """Return what the file says, or said when it was right last."""
    try:
        return loader.parse(content, path())
    except ConfigInvalid:
        return live.current()


def _document(content: bytes) -> Document:
    return document.of(content, _label())


def _label() -> str:
    return reader.label(path())


def _misplaced(message: str, code: str = errors.MISPLACED) -> ConfigInvalid:
    return ConfigInvalid([Problem((), message, code)])


# Texts.


def _spliced(doc: Document, place: Place, text: str) -> bytes:
    """Return the content with a text at a place."""
    if not text.strip():
        return _removed(doc, place) if _find(doc, place) else doc.content
    entry = _find(doc, place)
    if entry is not None and _is_as_shown(doc, place, text):
        return doc.content
    new = _fragment(text, place)
    try:
        if entry is not None:
            edits = splicing.put(doc.layout, entry, new)
        else:
            edits = _added(doc, place, new)
        content = doc.with_text(splicing.apply(doc.text, edits))
    except Unplaceable as exc:
        raise _misplaced(f"'{'.'.join(place)}': {exc}") from exc
    _check_only(doc, place, content, new)
    return masks.kept(content, doc, _label())


def _is_as_shown(doc: Document, place: Place, text: str) -> bool:
    typed = text.replace("\r\n", "\n").rstrip()
    return _shown(doc, place).rstrip() == typed


def _shown(doc: Document, place: Place) -> str:
    """Return what is written at a place, without its secrets; "" for nothing."""
    entry = _find(doc, place)
    if entry is None:
        return ""
    return splicing.written(doc.layout, entry, doc.text, masks.edits(doc))


def _fragment(text: str, place: Place) -> splicing.Fragment:
    """Return a text as a value; raises `ConfigInvalid`, with its own lines."""
    name = ".".join(place)
    try:
        return splicing.fragment(text)
    except Unplaceable as exc:
        raise _misplaced(f"'{name}': {exc}") from exc
    except MarkedYAMLError as exc:
        mark = exc.problem_mark or exc.context_mark
        where = Position(name, mark.line + 1, mark.column + 1) if mark else None
        says = f"not valid YAML: {placeholders.show(exc.problem or str(exc))}"
        raise ConfigInvalid([Problem((), says, errors.SYNTAX, where)]) from None
    except (YAMLError, ValueError) as exc:
        says = f"'{name}': not valid YAML: {str(exc).partition(chr(10))[0]}"
        raise _misplaced(says, errors.SYNTAX) from None


def _added(doc: Document, place: Place, new: splicing.Fragment) -> list[Edit]:
    parent = doc.layout.root
    if len(place) > 1:
        above = _find(doc, place[:-1])
        if above is None:
            entry = splicing.rendered(place[-1], new)
            return _added(doc, place[:-1], splicing.fragment(entry))
        parent = doc.target(above)
    name = None if parent.value.kind == "list" else place[-1]
    return splicing.add(doc.layout, parent, name, new)


def _removed(doc: Document, place: Place) -> bytes:
    entry = _find(doc, place)
    if entry is None:
        raise EntryUnknown(f"there is no '{place[-1]}' under {place[0]}:")
    try:
        text = splicing.apply(doc.text, splicing.drop(doc.layout, entry))
    except Unplaceable as exc:
        raise _misplaced(f"'{'.'.join(place)}': {exc}") from exc
    return doc.with_text(text)


def _check_only(
    doc: Document, place: Place, content: bytes, new: splicing.Fragment
) -> None:
    """Refuse a text that says something else where it is put, or elsewhere."""
    after = document.of(content, _label())
    if _around(doc, place) != _around(after, place):
        raise _misplaced(f"'{place[0]}': this text would change what stands around it")
    entry = _find(after, place)
    if entry is None or entry.value.gist != new.value.gist:
        raise _misplaced(f"'{place[0]}': this text would say something else there")


def _around(doc: Document, place: Place) -> list[list[Any]]:
    """Return what stands beside a place and beside what it is in."""
    levels = []
    for depth in range(len(place)):
        above, own = _find(doc, place[:depth]), _find(doc, place[: depth + 1])
        siblings = doc.target(above).value.entries if above else []
        others = [e for e in siblings if e is not own]
        levels.append([(e.name, e.value.anchor, e.value.gist) for e in others])
    return levels


# Data.


def _merged(doc: Document, place: Place, data: Any) -> bytes:
    """Return the content that says something else at a place."""
    wanted = masks.restored(data, place, doc)
    location = _location(doc, place)
    if location is None:
        return _spliced(doc, place, emission.block(wanted))
    old = masks.at(doc.data, location)
    for edits in _ways(doc, location, old, wanted):
        try:
            content = doc.with_text(splicing.apply(doc.text, edits()))
            after = document.of(content, _label())
        except (ConfigInvalid, Unplaceable):
            continue
        if merging.same(after.data, masks.planted(doc.data, location, wanted)):
            return content
    raise _misplaced(
        f"'{'.'.join(place)}': anchors (&name) in it are used elsewhere, too; change "
        "the text of the whole file"
    )


def _ways(
    doc: Document, location: Location, old: Any, wanted: Any
) -> list[Callable[[], list[Edit]]]:
    """Return ways to write it, the gentlest first: anchors may spoil any."""
    entry = doc.entries[location]
    return [
        lambda: merging.merge(doc.layout, entry, old, wanted),
        lambda: splicing.put(
            doc.layout, entry, merging.fragment(wanted, is_flow=entry.is_in_flow)
        ),
    ]


# Places.


def _find(doc: Document, place: Place) -> Entry | None:
    location = _location(doc, place)
    return None if location is None else doc.entries[location]


def _location(doc: Document, place: Place) -> Location | None:
    """Return where a place is in data: in a list, the entry of that name."""
    location: Location = ()
    data: Any = doc.data
    for name in place:
        step: str | int | None = name
        if isinstance(data, list):
            named = [merging.identity(item) == f"name:{name}" for item in data]
            step = named.index(True) if True in named else None
        elif not isinstance(data, dict) or name not in data:
            step = None
        if step is None:
            return None
        location, data = (*location, step), data[step]
    return location if location in doc.entries else None
