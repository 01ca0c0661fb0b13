"""Replace masks by their secrets when a file is saved.

A mask stands for the file's secret at the same keys, in the list entry of the same
name. A mask where the file has no secret is refused; masks are never written to the
file.
"""

from collections import Counter, defaultdict
from collections.abc import Hashable, Iterator
from typing import Any

from config import errors
from config.editing import secret_masks
from config.editing.round_trip import data_merge, document, serializer, text_edits
from config.editing.round_trip.document import Document
from config.editing.round_trip.source_map import SourceEntry
from config.errors import ConfigInvalid
from config.loading import placeholders, reader
from config.sections import Location, Problem

NOTHING_STORED_THERE = (
    "this is a mask, but the file has no secret here; write the secret itself, or a "
    "placeholder such as ${NAME}"
)
MASK_AS_KEY = "a mask cannot be a key"


def restore_content(content: bytes, old: Document, file: str) -> bytes:
    """Return a content with its masks replaced by the secrets of an older one.

    Raises `ConfigInvalid` where the older one has no secret, and for invalid YAML.
    """
    if secret_masks.MASK not in content.decode(errors="replace"):
        return content
    new = document.parse_document(content, file)
    restorer = _ContentRestorer(new, old, file)
    text = text_edits.apply_edits(
        new.text, [*restorer.value_edits(), *restorer.comment_edits()]
    )
    if restorer.problems:
        raise ConfigInvalid(errors.limit_problems(restorer.problems))
    return new.encode_text(text)


class _ContentRestorer:
    """Maps the masks of one document to the secrets of another."""

    def __init__(self, new: Document, old: Document, file: str) -> None:
        self.new, self.old, self.file = new, old, file
        self.hidden = secret_masks.find_masks(old)
        self.counterparts = _Counterparts(new.data, secret_masks.masked_data(old))
        self.problems: list[Problem] = []

    def value_edits(self) -> Iterator[text_edits.Edit]:
        done: set[int] = set()
        for location, entry in self.new.entries.items():
            value = entry.value
            if entry.key is not None and secret_masks.MASK in placeholders.reveal(
                entry.name
            ):
                self._add_problem(location, entry.key.start, MASK_AS_KEY)
            if value.kind != "scalar" or value.start in done:
                continue
            masked_text = placeholders.reveal(value.text)
            if secret_masks.MASK in masked_text:
                done.add(value.start)
                yield from self._value(location, entry, masked_text)

    def _value(
        self, location: Location, entry: SourceEntry, masked_text: str
    ) -> Iterator[text_edits.Edit]:
        before = self.counterparts.find(location)
        if before is None or self.hidden.values.get(before) != masked_text:
            self._add_problem(location, entry.value.start, NOTHING_STORED_THERE)
            return
        source = self.old.resolve_alias(self.old.entries[before])
        raw = text_edits.entry_text(self.old.source_map, source, self.old.text)
        if source.value.style in ("|", ">") and not entry.is_in_flow:
            yield from text_edits.replace_value(
                self.new.source_map, entry, text_edits.parse_fragment(raw)
            )
            return
        if "\n" in raw or entry.is_in_flow != source.is_in_flow:
            raw = serializer.dump_flow(secret_masks.value_at(self.old.data, before))
        yield (entry.value.start, entry.value.end, raw)

    def comment_edits(self) -> Iterator[text_edits.Edit]:
        """Match comments by their masked text, in order."""
        shown_before: dict[str, list[str]] = defaultdict(list)
        for comment, shown in self.hidden.comments.values():
            shown_before[shown].append(comment)
        comments_with_masks = [
            (s, c.rstrip())
            for s, c in secret_masks.iter_comments(self.new)
            if secret_masks.MASK in c
        ]
        counts = Counter(comment for _, comment in comments_with_masks)
        unambiguous = {
            shown for shown, comments in shown_before.items() if len(set(comments)) == 1
        }
        counts_so_far: Counter[str] = Counter()
        for start, comment in comments_with_masks:
            candidates = shown_before.get(comment, [])
            index = counts_so_far[comment]
            counts_so_far[comment] += 1
            if comment in unambiguous:
                yield (start, start + len(comment), candidates[0])
            elif candidates and len(candidates) == counts[comment]:
                yield (start, start + len(comment), candidates[index])
            else:
                self._add_problem(
                    (), start, "this comment contains a mask; write its full text"
                )

    def _add_problem(self, location: Location, index: int, message: str) -> None:
        is_reported = len(self.problems) < errors.MAX_PROBLEMS
        where = (
            reader.position(self.file, self.new.text, index) if is_reported else None
        )
        name = ".".join(map(str, location))
        message = f"'{name}': {message}" if name else message
        self.problems.append(Problem(location, message, errors.MASKED, where))


def restore_data(new: Any, location: Location, old: Document) -> Any:
    """Return data for a location with its masks replaced by a document's secrets.

    Raises `ConfigInvalid` where the document has no secret.
    """
    restorer = _DataRestorer(new, location, old)
    value = restorer.restore(new, location)
    if restorer.problems:
        raise ConfigInvalid(errors.limit_problems(restorer.problems))
    return value


class _DataRestorer:
    """Maps the masks in data for a location to a document's secrets."""

    def __init__(self, new: Any, location: Location, old: Document) -> None:
        self.old = old
        self.hidden = secret_masks.find_masks(old).values
        shown_before = secret_masks.masked_data(old)
        whole = replace_at(shown_before, location, new)
        self.counterparts = _Counterparts(whole, shown_before)
        self.problems: list[Problem] = []

    def restore(self, value: Any, location: Location) -> Any:
        if isinstance(value, dict):
            return {
                self._check_key(key, location): self.restore(below, (*location, key))
                for key, below in value.items()
            }
        if isinstance(value, list):
            return [
                self.restore(it, (*location, index)) for index, it in enumerate(value)
            ]
        if not isinstance(value, str) or secret_masks.MASK not in value:
            return value
        before = self.counterparts.find(location)
        if before is None or self.hidden.get(before) != value:
            self._add_problem(location, NOTHING_STORED_THERE)
            return value
        return secret_masks.value_at(self.old.data, before)

    def _check_key(self, key: Any, location: Location) -> Any:
        if isinstance(key, str) and secret_masks.MASK in key:
            self._add_problem((*location, key), MASK_AS_KEY)
        return key

    def _add_problem(self, location: Location, message: str) -> None:
        message = f"'{'.'.join(map(str, location))}': {message}"
        self.problems.append(Problem(location, message, errors.MASKED))


def replace_at(whole: Any, location: Location, new: Any) -> Any:
    """Return a copy of the data with the value at a location replaced."""
    if not location:
        return new
    step, rest = location[0], location[1:]
    if isinstance(whole, list) and isinstance(step, int):
        below = replace_at(whole[step], rest, new)
        return [*whole[:step], below, *whole[step + 1 :]]
    old = whole if isinstance(whole, dict) else {}
    return {**old, step: replace_at(old.get(step), rest, new)}


class _Counterparts:
    """Maps locations of new data to locations of old data, both masked.

    List entries match by name; unnamed ones match by content, or by index if all others
    are unchanged.
    """

    def __init__(self, new: Any, old: Any) -> None:
        self.new, self.old = new, old
        self._pairs: dict[tuple[int, int], _ListMatch] = {}
        """Keyed by the `id` of the lists, which stay referenced as long."""

    def find(self, location: Location) -> Location | None:
        steps: list[str | int] = []
        new, old = self.new, self.old
        for step in location:
            if isinstance(new, dict) and isinstance(old, dict):
                if step not in old:
                    return None
                steps.append(step)
                new, old = new[step], old[step]
            elif (
                isinstance(new, list)
                and isinstance(old, list)
                and isinstance(step, int)
            ):
                index = self._match_lists(new, old).old_index(step)
                if index is None:
                    return None
                steps.append(index)
                new, old = new[step], old[index]
            else:
                return None
        return tuple(steps)

    def _match_lists(self, new: list[Any], old: list[Any]) -> "_ListMatch":
        key = (id(new), id(old))
        if key not in self._pairs:
            self._pairs[key] = _ListMatch(new, old)
        return self._pairs[key]


class _ListMatch:
    """Maps entries of a new list to entries of an old list."""

    def __init__(self, new: list[Any], old: list[Any]) -> None:
        self._new = list(map(data_merge.matching_key, new))
        self._are_named = [data_merge.identity_of(item) is not None for item in new]
        self._counts = Counter(self._new)
        self._indexes: dict[Hashable, list[int]] = defaultdict(list)
        before = list(map(data_merge.matching_key, old))
        for index, key in enumerate(before):
            self._indexes[key].append(index)
        self._changed: set[int] | None = None
        """The indexes that differ, if both lists have the same length."""
        if len(new) == len(old):
            both = zip(self._new, before, strict=True)
            self._changed = {i for i, (one, other) in enumerate(both) if one != other}

    def old_index(self, index: int) -> int | None:
        key, changed = self._new[index], self._changed
        indexes = self._indexes.get(key, [])
        is_one = len(indexes) == self._counts[key] == 1
        if self._are_named[index]:
            return indexes[0] if is_one else None
        if changed is not None and index not in changed:
            return index
        if len(indexes) == 1:
            # A copied entry would put one secret in two places.
            return indexes[0] if is_one else None
        return index if changed == {index} else None
