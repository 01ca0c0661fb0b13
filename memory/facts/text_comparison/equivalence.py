"""Do two sentences about a user say the same, opposite things, or different ones?

Vectors cannot tell: "lives in Lisbon" and "lives in Berlin" are as close as two ways to
say one thing. So the words are compared, and only what is certain is called the same or
changed. What is in doubt is different: a duplicate costs less than a lost fact.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Literal

from memory.facts.text_comparison import word_lists as lists
from memory.facts.text_comparison.sentence_parser import (
    ParsedSentence,
    Word,
    normalize,
    parse_sentence,
)

Relation = Literal["same", "changed", "different"]

MAX_WORDS = 200
"""Of a fact longer than that nobody can say that only one thing has changed."""


def is_identical(old: str, new: str) -> bool:
    """Return whether two texts differ in nothing but case, width and punctuation."""
    return normalize(old) == normalize(new)


def compare_texts(old: str, new: str) -> Relation:
    """Return what a new fact is to an old one.

    `same`: its words mean the same, with the same numbers, dates, names and "not"s.
    `changed`: one of these differs, and there can be only one truth of that frame.
    `different`: neither, or nobody can say.
    """
    if is_identical(old, new):
        return "same"
    a, b = parse_sentence(old), parse_sentence(new)
    if not _are_comparable(a, b):
        return "different"
    if Counter(_content_keys(a)) == Counter(_content_keys(b)):
        return _compare_order(a, b)
    if a.negated or b.negated:
        return "different"
    return "changed" if _is_replaced(a, b) else "different"


def _are_comparable(a: ParsedSentence, b: ParsedSentence) -> bool:
    """Return whether both are clear, and tell of the same time."""
    if not (a.is_clear and b.is_clear and a.words and b.words):
        return False
    if max(len(a.words), len(b.words)) > MAX_WORDS:
        return False
    past = {word.key: word.is_past for word in a.words}
    return all(past.get(word.key, word.is_past) == word.is_past for word in b.words)


def _content_keys(wording: ParsedSentence) -> list[str]:
    """Return the words without "works as" and "named", which only join others.

    A nurse is who works as one.
    """
    return [key for key in wording.keys if key not in ("work_as", "name")]


def _compare_order(a: ParsedSentence, b: ParsedSentence) -> Relation:
    """Compare two sentences of the same words."""
    if bool(a.negated) != bool(b.negated):
        return "changed"
    if _content_keys(a) == _content_keys(b):
        return "same" if a.negated == b.negated else "different"
    if "prefer" in a.keys:
        return "changed"
    if (
        a.negated
        or _has_order(a)
        or _has_order(b)
        or _ordered_keys(a) != _ordered_keys(b)
    ):
        return "different"
    return "same"


def _has_order(wording: ParsedSentence) -> bool:
    return any(word.raw.lower() in lists.ORDERED for word in wording.words)


def _ordered_keys(wording: ParsedSentence) -> list[str]:
    """Return what must come in the same order: names, numbers, dates, characters."""
    return [
        word.key
        for word in wording.words
        if word.is_capital or word.kind != "word" or not word.key.isascii()
    ]


@dataclass(frozen=True, slots=True)
class Difference:
    """Where two sentences differ."""

    start: int
    """The place of its first word in the old one."""
    old: Sequence[Word]
    new: Sequence[Word]


def _is_replaced(a: ParsedSentence, b: ParsedSentence) -> bool:
    """Return whether the new sentence puts the old one's truth to an end."""
    slots = _find_differences(a, b)
    if not slots:
        return False
    changed = {slot.start + n for slot in slots for n in range(len(slot.old))}
    frame = [word.key for n, word in enumerate(a.words) if n not in changed]
    if len(slots) == 1 and _is_exclusive(slots[0]):
        return True
    if len(slots) == 1 and frame and _is_amount(slots[0]):
        return not (a.is_event or b.is_event or any(word.is_past for word in a.words))
    return _is_single(a.words, frame, slots)


def _find_differences(a: ParsedSentence, b: ParsedSentence) -> list[Difference]:
    """Return where the sentences differ; [] if one says more than the other."""
    matcher = SequenceMatcher(None, a.keys, b.keys, autojunk=False)
    slots = []
    for action, i, i_end, j, j_end in matcher.get_opcodes():
        if action in ("insert", "delete"):
            return []
        if action == "replace":
            slots.append(Difference(i, a.words[i:i_end], b.words[j:j_end]))
    return slots


def _is_exclusive(slot: Difference) -> bool:
    old, new = slot.old[0].key, slot.new[0].key
    return any(old in line and new in line for line in lists.EXCLUSIVE)


def _is_amount(slot: Difference) -> bool:
    kinds = {word.kind for word in (*slot.old, *slot.new)}
    return kinds in ({"number"}, {"date"})


def _is_single(
    words: Sequence[Word], frame: list[str], slots: list[Difference]
) -> bool:
    """Return whether what differs is something one has only one of at a time."""
    first = slots[0]
    head = words[first.start - 1].key if first.start else ""
    names = [slot.old[0].is_capital and slot.new[0].is_capital for slot in slots]
    if head in lists.SINGLE:
        is_alike = first.old[0].is_capital == first.new[0].is_capital
        return is_alike and not _says_more(first)
    if head in lists.SINGLE_NAMES:
        others = set(frame) - {head}
        return all(names) and others <= lists.ONE_RELATIVE
    if not set(frame).isdisjoint(lists.SINGLE_VALUES):
        return bool(head)
    return _is_single_of_a_kind(frame, slots) or _is_single_unspaced(words, slots)


def _says_more(slot: Difference) -> bool:
    """Return whether the old sentence goes on about something else."""

    def weight(words: Sequence[Word]) -> int:
        plain = [word.raw.lower() for word in words if word.kind == "word"]
        return sum(word not in lists.ORDERED for word in plain)

    return weight(slot.old) > weight(slot.new) + 1


def _is_single_of_a_kind(frame: list[str], slots: list[Difference]) -> bool:
    """Return whether it is the favourite of a kind: *colour*, this *seat* or that."""
    has_kind = len(frame) > 1 and len(slots) == 1 and slots[0].start > 0
    return has_kind and ("favorite" in frame or "prefer" in frame)


def _is_single_unspaced(words: Sequence[Word], slots: list[Difference]) -> bool:
    """The same for Chinese and Japanese, whose words are characters here."""
    if len(slots) != 1:
        return False
    slot = slots[0]
    before = "".join(word.key for word in words[: slot.start])
    after = "".join(word.key for word in words[slot.start + len(slot.old) :])
    if any(before.endswith(head) for head in lists.SINGLE_BEFORE):
        return True
    return not before and any(after.startswith(tail) for tail in lists.SINGLE_AFTER)
