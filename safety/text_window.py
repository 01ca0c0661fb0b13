"""Checks of a text that arrives in pieces, by patterns.

At most a window of characters is held back. When it is full, its first half passes,
masked, and the other half stays: whatever is at most half a window long is found before
any of it has passed.
"""

import sys
from collections.abc import Sequence
from typing import NamedTuple

from safety.config import SafetyCheck
from safety.detection import rules
from safety.detection.matches import Match

EXCERPT_CHARS = 100
"""Characters before and after what was found."""


class Found(NamedTuple):
    check: SafetyCheck
    level: str
    reason: str
    excerpt: str


class TextWindow:
    def __init__(self, checks: Sequence[SafetyCheck], size: int | None) -> None:
        """`size` is the number of characters that are held back; None: all of them."""
        self._checks = checks
        self._size = sys.maxsize if size is None else size
        self._passed = ""
        """The end of what has passed, as the context of the rest."""
        self._held: list[str] = []
        self._length = 0
        self._found: list[Found] = []

    def add(self, text: str) -> str:
        """Return what passes now."""
        self._held.append(text)
        self._length += len(text)
        return "" if self._length < self._size else self._release(is_final=False)

    def flush(self) -> str:
        """Return what was held back, at the end of the text."""
        text = self._release(is_final=True)
        self._passed, self._held, self._length = "", [], 0
        return text

    def take_found(self) -> list[Found]:
        found, self._found = self._found, []
        return found

    def _release(self, *, is_final: bool) -> str:
        held = "".join(self._held)
        before = len(self._passed)
        cut = len(held) if is_final else len(held) - self._size // 2
        pieces: list[str] = []
        done = 0
        for check, match in self._matches(self._passed + held):
            start, end = match.start - before, match.end - before
            level = match.level or check.highest
            action = check.action(level)
            if action.ends_reply:
                self._note(check, level, match)
            if end <= 0 or start >= cut:
                continue
            if end >= len(held) and not is_final and len(held) - start < self._size:
                cut = start  # It may go on.
                continue
            self._note(check, level, match)
            if action.mask and end > done:
                pieces += held[done : max(start, done)], f"[{match.label}]"
                done = end
        cut = max(cut, done)
        passed = "".join([*pieces, held[done:cut]])
        self._held, self._length = [held[cut:]], len(held) - cut
        self._passed = (self._passed + passed)[-self._size // 2 :]
        return passed

    def _matches(self, text: str) -> list[tuple[SafetyCheck, Match]]:
        found = [
            (check, match)
            for check in self._checks
            for match in rules.find_matches(check, text)
        ]
        return sorted(found, key=lambda each: each[1].start)

    def _note(self, check: SafetyCheck, level: str, match: Match) -> None:
        excerpt = ""
        if check.by.regex is not None and not check.action(level).mask:
            text = self._passed + "".join(self._held)
            first = max(match.start - EXCERPT_CHARS, 0)
            excerpt = text[first : match.end + EXCERPT_CHARS]
        label = match.label if check.by.regex is None else "pattern"
        self._found.append(Found(check, level, label, excerpt))
