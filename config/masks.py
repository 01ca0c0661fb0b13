"""Secrets of a file, hidden from who looks at it and kept when it is saved again.

A mask stands for what the file has at that place: under the same keys, in the entry of
the same name. A mask where the file has no secret is refused, and none is written.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from config import (
    document,
    emission,
    errors,
    merging,
    outline,
    placeholders,
    reader,
    secret_values,
    sections,
    splicing,
)
from config.document import Document
from config.errors import ConfigInvalid
from config.layout import Entry
from config.sections import Location, Problem
from core import redaction

NOT_THERE = (
    "this is masked, and the file has no secret there; write the secret itself, or "
    "${NAME} for that of the environment"
)
MASK = "\u2022" * 8
"""Plain text to YAML; nobody's password."""

TOKEN = re.compile(r"(\$\{[^}\r\n]*\})")
DEFAULT = re.compile(r"(?<=:-).+(?=\}$)")
COMMENT = re.compile(r"(?:(?<=[ \t])|^)#[^\r\n]*", re.MULTILINE)
COMMENTED_FIELD = re.compile(
    r"""^\#[\s\#-]*["']?(?P<name>[\w.-]+)["']?:[ ]+"""
    r"""(?!true\b|false\b|null\b)(?P<value>[^\s{\[]\S*)(?:\s+\#.*)?$"""
)
"""A field that was taken out of force, and may be put back."""


@dataclass(frozen=True, eq=False)
class Masks:
    """What is hidden in one content of a file."""

    values: Mapping[Location, str]
    """What is shown in place of each secret."""
    spans: Mapping[tuple[int, int], str]
    """The same by the first and last characters of where it is written."""
    comments: Mapping[int, tuple[str, str]]
    """Where comments with secrets begin: as they are, as they are shown."""


@lru_cache(maxsize=4)
def of(doc: Document) -> Masks:
    """Return what is hidden in a document."""
    secrets = dict(_secrets(doc))
    known = sorted(
        {
            literal
            for location in secrets
            for literal in _literals(_said(doc, location))
            if len(literal) >= redaction.MIN_CHARS
        },
        key=len,
        reverse=True,
    )
    secrets |= dict(_repeated(doc, known))
    spans = {_span(doc, place): text for place, text in secrets.items()}
    values = {
        place: spans[span]
        for place in doc.entries
        if (span := _span(doc, place)) in spans
    }
    return Masks(values, spans, dict(_secret_comments(doc, known)))


def _span(doc: Document, location: Location) -> tuple[int, int]:
    """Return where a value is written: for an alias, where what it stands for is."""
    value = doc.target(doc.entries[location]).value
    return value.start, value.end


# Which places hold secrets.


def _secrets(doc: Document) -> Iterator[tuple[Location, str]]:
    """Yield each scalar that is one by its shape, name or look, and its mask."""
    known = sections.registered()
    for key, value in doc.data.items():
        section = known.get(key)
        schema = section.schema if section else {}
        nodes = outline.roots(schema)
        yield from _within(value, (key,), nodes, schema, is_free=not section)


def _within(
    value: Any,
    place: Location,
    nodes: list[outline.Schema],
    schema: outline.Schema,
    *,
    is_free: bool,
) -> Iterator[tuple[Location, str]]:
    """Yield the secrets in a value; in one that is free, names are anyone's."""
    for step, child in _entries(value):
        below = outline.below(schema, nodes, step)
        free = not outline.declares(nodes, step)
        if isinstance(step, int):
            free = is_free or not below
        yield from _within(child, (*place, step), below, schema, is_free=free)
    if value is None or isinstance(value, dict | list):
        return
    is_hidden = any(node.get("writeOnly") is True for node in nodes)
    text = str(value)
    if is_hidden or (isinstance(value, str) and _is_secret(place, text, is_free)):
        hidden = masked(text)
        if hidden != text:
            yield place, hidden


def _entries(value: Any) -> Iterable[tuple[str | int, Any]]:
    if isinstance(value, dict):
        return value.items()
    return enumerate(value) if isinstance(value, list) else ()


def _is_secret(place: Location, text: str, is_free: bool) -> bool:
    names = [step for step in place if isinstance(step, str)]
    if names[-1] in merging.IDENTITIES:
        return False  # By which masks are told apart.
    if is_free and secret_values.is_secret(names[-1], text):
        return True
    return redaction.alike(text) != text


def _repeated(doc: Document, known: list[str]) -> Iterator[tuple[Location, str]]:
    """Yield scalars with a secret of another place in them."""
    for place, entry in doc.entries.items():
        text = placeholders.show(entry.value.said)
        is_name = bool(place) and place[-1] in merging.IDENTITIES
        is_free = entry.value.kind == "scalar" and not is_name
        if is_free and any(secret in text for secret in known):
            yield place, masked(text)


def masked(text: str) -> str:
    """Return what is shown of a secret: its placeholders, and a word such as Bearer."""
    pieces = TOKEN.split(text)
    if len(pieces) == 1:
        return MASK if text else text
    return "".join(
        DEFAULT.sub(MASK, piece) if index % 2 else _masked_literal(piece)
        for index, piece in enumerate(pieces)
    )


def _masked_literal(piece: str) -> str:
    word = piece.strip()
    if not word or word.lower() in secret_values.SCHEMES:
        return piece
    return piece.replace(word, MASK)


def _literals(text: str) -> Iterator[str]:
    """Yield what of a secret is in the file itself."""
    for index, piece in enumerate(TOKEN.split(text)):
        default = DEFAULT.search(piece) if index % 2 else None
        word = default.group() if default else "" if index % 2 else piece.strip()
        scheme, _, rest = word.partition(" ")
        yield rest if scheme.lower() in secret_values.SCHEMES else word


def _said(doc: Document, location: Location) -> str:
    return str(at(doc.data, location))


def at(data: Any, location: Location) -> Any:
    """Return what data has at a place; raises `LookupError` when it has none."""
    for step in location:
        if not isinstance(data, dict if isinstance(step, str) else list):
            raise LookupError(step)
        data = data[step]  # type: ignore[index]
    return data


# Comments.


def _secret_comments(
    doc: Document, known: list[str]
) -> Iterator[tuple[int, tuple[str, str]]]:
    for start, comment in comments(doc):
        shown = _shown_comment(comment, known)
        if shown != comment:
            yield start, (comment, shown)


def comments(doc: Document) -> Iterator[tuple[int, str]]:
    """Yield each comment and where it begins."""
    blank = list(doc.text)
    for entry in doc.layout.walk():
        for node in (entry.key, entry.value):
            if node is not None and node.kind == "scalar":
                for index in range(node.start, node.end):
                    if blank[index] not in "\r\n":
                        blank[index] = "x"
    for found in COMMENT.finditer("".join(blank)):
        yield found.start(), doc.text[found.start() : found.end()]


def _shown_comment(comment: str, known: list[str]) -> str:
    for secret in known:
        comment = comment.replace(secret, MASK)
    field = COMMENTED_FIELD.match(comment)
    if field and secret_values.SECRET_NAME.search(field["name"]):
        start, end = field.span("value")
        comment = comment[:start] + masked(field["value"]) + comment[end:]
    return redaction.alike(comment).replace(redaction.MARK, MASK)


# What is shown.


def shown(doc: Document) -> bytes:
    """Return a content without its secrets."""
    return doc.with_text(splicing.apply(doc.text, edits(doc)))


def edits(doc: Document) -> list[splicing.Edit]:
    """Return the edits that hide a content's secrets."""
    hidden = of(doc)
    values = [
        (start, end, _scalar(text)) for (start, end), text in hidden.spans.items()
    ]
    comments = [
        (start, start + len(comment), text)
        for start, (comment, text) in hidden.comments.items()
    ]
    return values + comments


def _scalar(text: str) -> str:
    """Return a text as it may stand anywhere, on one line."""
    return emission.flow(text)


def data(doc: Document) -> dict[str, Any]:
    """Return what a document says, without its secrets."""
    found: dict[str, Any] = _replaced(doc.data, (), of(doc).values)
    return found


def _replaced(value: Any, place: Location, by: Mapping[Location, str]) -> Any:
    if isinstance(value, dict):
        return {key: _replaced(it, (*place, key), by) for key, it in value.items()}
    if isinstance(value, list):
        return [_replaced(it, (*place, index), by) for index, it in enumerate(value)]
    return by.get(place, value)


# What is kept.


def kept(content: bytes, old: Document, file: str) -> bytes:
    """Return a content with what masks stand for in an older one.

    Raises `ConfigInvalid` where that has no secret, and for what is no YAML.
    """
    if MASK not in content.decode(errors="replace"):
        return content
    new = document.of(content, file)
    keeping = _Keeping(new, old, file)
    text = splicing.apply(new.text, [*keeping.values(), *keeping.comments()])
    if keeping.problems:
        raise ConfigInvalid(keeping.problems)
    return new.with_text(text)


class _Keeping:
    """Finds what the masks of one document stand for in another."""

    def __init__(self, new: Document, old: Document, file: str) -> None:
        self.new, self.old, self.file = new, old, file
        self.hidden = of(old)
        self.shown_before = data(old)
        self.problems: list[Problem] = []

    def values(self) -> Iterator[splicing.Edit]:
        done: set[int] = set()
        for place, entry in self.new.entries.items():
            value = entry.value
            if entry.key is not None and MASK in placeholders.show(entry.name):
                self._refuse(place, entry.key.start, "a mask cannot be a key")
            if value.kind != "scalar" or value.start in done:
                continue
            said = placeholders.show(value.said)
            if MASK in said:
                done.add(value.start)
                yield from self._value(place, entry, said)

    def _value(
        self, place: Location, entry: Entry, said: str
    ) -> Iterator[splicing.Edit]:
        before = counterpart(place, self.new.data, self.shown_before)
        if before is None or self.hidden.values.get(before) != said:
            self._refuse(place, entry.value.start, NOT_THERE)
            return
        source = self.old.target(self.old.entries[before])
        raw = splicing.written(self.old.layout, source, self.old.text)
        if source.value.style in ("|", ">") and not entry.is_in_flow:
            yield from splicing.put(self.new.layout, entry, splicing.fragment(raw))
            return
        if "\n" in raw or entry.is_in_flow != source.is_in_flow:
            raw = emission.flow(at(self.old.data, before))
        yield (entry.value.start, entry.value.end, raw)

    def comments(self) -> Iterator[splicing.Edit]:
        """Find comments by what was shown of them: the first for the first."""
        shown_before: dict[str, list[str]] = defaultdict(list)
        for comment, shown in self.hidden.comments.values():
            shown_before[shown].append(comment)
        found = [(s, c.rstrip()) for s, c in comments(self.new) if MASK in c]
        for start, comment in found:
            candidates = shown_before.get(comment, [])
            count = sum(other == comment for _, other in found)
            if len(set(candidates)) == 1:
                yield (start, start + len(comment), candidates[0])
            elif candidates and len(candidates) == count:
                index = [s for s, c in found if c == comment].index(start)
                yield (start, start + len(comment), candidates[index])
            else:
                self._refuse((), start, "this comment holds a mask; write what it says")

    def _refuse(self, place: Location, index: int, says: str) -> None:
        where = reader.position(self.file, self.new.text, index)
        name = ".".join(map(str, place))
        message = f"'{name}': {says}" if name else says
        self.problems.append(Problem(place, message, errors.MASKED, where))


def restored(new: Any, place: Location, old: Document) -> Any:
    """Return data for a place, with what its masks stand for in a document.

    Raises `ConfigInvalid` where that has no secret.
    """
    hidden = of(old).values
    before = data(old)
    whole = planted(before, place, new)
    problems: list[Problem] = []

    def kept_at(value: Any, here: Location) -> Any:
        if isinstance(value, dict):
            return {_key(k, here): kept_at(v, (*here, k)) for k, v in value.items()}
        if isinstance(value, list):
            return [kept_at(it, (*here, index)) for index, it in enumerate(value)]
        if not isinstance(value, str) or MASK not in value:
            return value
        source = counterpart(here, whole, before)
        if source is None or hidden.get(source) != value:
            refuse(here, NOT_THERE)
            return value
        return at(old.data, source)

    def _key(key: Any, here: Location) -> Any:
        if isinstance(key, str) and MASK in key:
            refuse((*here, key), "a mask cannot be a key")
        return key

    def refuse(here: Location, says: str) -> None:
        message = f"'{'.'.join(map(str, here))}': {says}"
        problems.append(Problem(here, message, errors.MASKED))

    value = kept_at(new, place)
    if problems:
        raise ConfigInvalid(problems)
    return value


def planted(whole: Any, place: Location, new: Any) -> Any:
    """Return data that says something else at a place."""
    if not place:
        return new
    step, rest = place[0], place[1:]
    if isinstance(whole, list) and isinstance(step, int):
        below = planted(whole[step], rest, new)
        return [*whole[:step], below, *whole[step + 1 :]]
    known = whole if isinstance(whole, dict) else {}
    return {**known, step: planted(known.get(step), rest, new)}


def counterpart(place: Location, new: Any, old: Any) -> Location | None:
    """Return which place of old data a place of new data was, as both are shown.

    Entries of lists are known by their names; those without by what they say, or by
    where they are while all others stay what they were.
    """
    found: list[str | int] = []
    for step in place:
        if isinstance(new, dict) and isinstance(old, dict):
            if step not in old:
                return None
            found.append(step)
            new, old = new[step], old[step]
        elif isinstance(new, list) and isinstance(old, list) and isinstance(step, int):
            index = _entry_before(step, new, old)
            if index is None:
                return None
            found.append(index)
            new, old = new[step], old[index]
        else:
            return None
    return tuple(found)


def _entry_before(index: int, new: list[Any], old: list[Any]) -> int | None:
    item = new[index]
    name = merging.identity(item)
    if name is not None:
        named = [i for i, it in enumerate(old) if merging.identity(it) == name]
        again = [it for it in new if merging.identity(it) == name]
        return named[0] if len(named) == len(again) == 1 else None
    if len(new) == len(old) and merging.same(old[index], item):
        return index
    alike = [i for i, it in enumerate(old) if merging.same(it, item)]
    if len(alike) == 1:
        # Copied, it would be one secret in two places.
        again = [it for it in new if merging.same(it, item)]
        return alike[0] if len(again) == 1 else None
    others = (merging.same(new[i], old[i]) for i in range(len(old)) if i != index)
    return index if len(new) == len(old) and all(others) else None
