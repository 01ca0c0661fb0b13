"""Whether two sentences about a user are equivalent, contradictory or different.

Vectors cannot tell: "lives in Lisbon" and "lives in Berlin" are as similar as two
phrasings of one fact. So the words are compared, and only certain cases count as the
same or changed. Doubtful cases count as different: a duplicate costs less than a lost
fact.
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
"""Maximum words of a fact in which a single change can be determined."""


def is_identical(old: str, new: str) -> bool:
    """Return whether two texts differ only in case, width and punctuation."""
    return normalize(old) == normalize(new)


def compare_texts(old: str, new: str) -> Relation:
    """Return the relation of a new fact to an old one.

    `same`: the words mean the same, with equal numbers, dates, names and negations.

    `changed`: one of these differs, and only one value can be true at a time.

    `different`: neither, or uncertain.
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
    """Return whether both are unambiguous and refer to the same time."""
    if not (a.is_clear and b.is_clear and a.words and b.words):
        return False
    if max(len(a.words), len(b.words)) > MAX_WORDS:
        return False
    past = {word.key: word.is_past for word in a.words}
    return all(past.get(word.key, word.is_past) == word.is_past for word in b.words)


def _content_keys(wording: ParsedSentence) -> list[str]:
    """Return the words without "works as" and "named", which only connect others.

    "Is a nurse" means the same as "works as a nurse".
    """
    return [key for key in wording.keys if key not in ("work_as", "name")]


def _compare_order(a: ParsedSentence, b: ParsedSentence) -> Relation:
    """Compare two sentences with the same words."""
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
    """Return the words whose order matters: names, numbers, dates, characters."""
    return [
        word.key
        for word in wording.words
        if word.is_capital or word.kind != "word" or not word.key.isascii()
    ]


@dataclass(frozen=True, slots=True)
class Difference:
    start: int
    """The index of its first word in the old sentence."""
    old: Sequence[Word]
    new: Sequence[Word]


def _is_replaced(a: ParsedSentence, b: ParsedSentence) -> bool:
    """Return whether the new sentence ends the validity of the old one."""
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
    """Return the differences; [] if one sentence says more than the other."""
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
    """Return whether the differing part is single-valued, such as a home town."""
    first = slots[0]
    head = words[first.start - 1].key if first.start else ""
    names = [slot.old[0].is_capital and slot.new[0].is_capital for slot in slots]
    if head in lists.SINGLE:
        is_alike = first.old[0].is_capital == first.new[0].is_capital
        return is_alike and not _has_extra_words(first)
    if head in lists.SINGLE_NAMES:
        others = set(frame) - {head}
        return all(names) and others <= lists.ONE_RELATIVE
    if not set(frame).isdisjoint(lists.SINGLE_VALUES):
        return bool(head)
    return _is_single_of_a_kind(frame, slots) or _is_single_unspaced(words, slots)


def _has_extra_words(slot: Difference) -> bool:
    """Return whether the old sentence continues with something else."""

    def weight(words: Sequence[Word]) -> int:
        plain = [word.raw.lower() for word in words if word.kind == "word"]
        return sum(word not in lists.ORDERED for word in plain)

    return weight(slot.old) > weight(slot.new) + 1


def _is_single_of_a_kind(frame: list[str], slots: list[Difference]) -> bool:
    """Return whether it is the favourite of a kind: *colour*, this *seat* or that."""
    has_kind = len(frame) > 1 and len(slots) == 1 and slots[0].start > 0
    return has_kind and ("favorite" in frame or "prefer" in frame)


def _is_single_unspaced(words: Sequence[Word], slots: list[Difference]) -> bool:
    """The same as `_is_single` for Chinese and Japanese, compared by characters."""
    if len(slots) != 1:
        return False
    slot = slots[0]
    before = "".join(word.key for word in words[: slot.start])
    after = "".join(word.key for word in words[slot.start + len(slot.old) :])
    if any(before.endswith(head) for head in lists.SINGLE_BEFORE):
        return True
    return not before and any(after.startswith(tail) for tail in lists.SINGLE_AFTER)
