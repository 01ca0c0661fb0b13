"""Compare plain data, and match the entries of an old and a new list."""

from collections import defaultdict
from collections.abc import Container, Hashable
from typing import Any

from config.sections import Location

IDENTITIES = ("name", "username")
"""Fields that identify a list entry."""


def identity_of(item: Any) -> str | None:
    """Return a list entry's identity; None if it has no name."""
    if isinstance(item, dict):
        for field in IDENTITIES:
            if isinstance(item.get(field), str):
                return f"{field}:{item[field]}"
    return None


def comparison_key(value: Any) -> Hashable:
    """Return a key that equal values share: 1 and 1.0 do, 1 and true do not."""
    if isinstance(value, dict):
        return ("map", frozenset((k, comparison_key(it)) for k, it in value.items()))
    if isinstance(value, list):
        return ("list", tuple(map(comparison_key, value)))
    key: Hashable = ("switch", value) if isinstance(value, bool) else value
    return key


def is_same(one: Any, other: Any) -> bool:
    return comparison_key(one) == comparison_key(other)


def matching_key(item: Any) -> Hashable:
    """Return the key to match a list entry by: its name, or the whole value."""
    name = identity_of(item)
    return comparison_key(item) if name is None else ("named", name)


def match_entries(
    old: list[Any], new: list[Any], *, is_strict: bool = False
) -> list[int | None]:
    """Return the index of the old entry of each new one, by name, content or index.

    With `is_strict`, an entry that may be one of several old ones matches none.
    """
    before, after = (list(map(matching_key, items)) for items in (old, new))
    is_same_length = len(old) == len(new)
    pairs = {
        index: index
        for index, key in enumerate(after)
        if is_same_length and key == before[index]
    }
    free = _indexes_by_key(before, pairs)
    for key, indexes in _indexes_by_key(after, pairs).items():
        candidates = free.get(key, [])
        if not is_strict or len(candidates) == len(indexes) == 1:
            pairs.update(zip(indexes, candidates, strict=False))
    changed = {
        index
        for index in set(range(len(new))).difference(pairs, pairs.values())
        if is_same_length
        and after[index] not in {*before}
        and identity_of(new[index]) is None
    }
    if not is_strict or len(changed) == 1:
        pairs.update(zip(changed, changed, strict=True))
    return [pairs.get(index) for index in range(len(new))]


def _indexes_by_key(
    keys: list[Hashable], others: Container[int]
) -> dict[Hashable, list[int]]:
    """Return the indexes of each key, except those in `others`."""
    indexes: dict[Hashable, list[int]] = defaultdict(list)
    for index, key in enumerate(keys):
        if index not in others:
            indexes[key].append(index)
    return indexes


def value_at(data: Any, location: Location) -> Any:
    """Return the value at a location; raises `LookupError` if there is none."""
    for step in location:
        if not isinstance(data, dict if isinstance(step, str) else list):
            raise LookupError(step)
        data = data[step]  # type: ignore[index]
    return data


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
