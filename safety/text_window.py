"""Checks of a text that arrives in pieces, by patterns.

At most a window of characters is held back. When it is full, its first half passes,
masked, and the other half stays: whatever is at most half a window long is found before
any of it has passed.
"""

import sys
from collections.abc import Iterable, Sequence

from safety.config import SafetyCheck
from safety.detection import rules
from safety.detection.matches import Match
from safety.finding import Finding

EXCERPT_CHARS = 100
"""Characters before and after what was found."""

_Match = tuple[SafetyCheck, Match]


class TextWindow:
    def __init__(self, checks: Sequence[SafetyCheck], size: int | None) -> None:
        """`size` is the number of characters that are held back; None: all of them."""
        self._checks = checks
        self._size = sys.maxsize if size is None else size
        self._context = self._size // 2
        self._passed = ""
        """The end of what has passed, as the context of the rest."""
        self._held: list[str] = []
        self._length = 0
        self._found: list[Finding] = []
        self._noted: set[tuple[str, str, str]] = set()
        """The check, level and label of what was found."""

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

    def check(self, text: str) -> str:
        """Return a whole text, masked."""
        return self.add(text) + self.flush()

    def take_found(self) -> list[Finding]:
        found, self._found = self._found, []
        return found

    def _release(self, *, is_final: bool) -> str:
        held = "".join(self._held)
        before = len(self._passed)
        cut = len(held) if is_final else len(held) - self._context
        pieces: list[str] = []
        done = 0
        matches = self._matches(self._passed + held)
        for check, match in matches:
            start, end = match.start - before, match.end - before
            level = check.level_of(match)
            action = check.action(level)
            if end <= 0 or (match.start == 0 and before == self._context):
                continue  # It has passed, or begins where the context was cut.
            may_go_on = end >= len(held) and not is_final
            if action.ends_reply and not may_go_on:
                self._note(check, level, match, matches)
            if start >= cut:
                continue
            if may_go_on and len(held) - start < self._size:
                cut = start
                continue
            self._note(check, level, match, matches)
            if action.mask and end > done:
                pieces += held[done : max(start, done)], f"[{match.label}]"
                done = end
        cut = max(cut, done)
        passed = "".join([*pieces, held[done:cut]])
        self._held, self._length = [held[cut:]], len(held) - cut
        self._passed = (self._passed + passed)[-self._context :]
        return passed

    def _matches(self, text: str) -> list[_Match]:
        found = [
            (check, match)
            for check in self._checks
            for match in rules.find_matches(check, text)
        ]
        return sorted(found, key=lambda each: each[1].start)

    def _note(
        self, check: SafetyCheck, level: str, match: Match, matches: Iterable[_Match]
    ) -> None:
        key = check.name, level, match.label
        if key in self._noted:
            return
        self._noted.add(key)
        excerpt = ""
        if check.by.regex is not None and not check.action(level).mask:
            text = self._passed + "".join(self._held)
            excerpt = _excerpt(text, match, matches)
        label = match.label if check.by.regex is None else "pattern"
        self._found.append(Finding(check, level, label, excerpt))


def _excerpt(text: str, match: Match, matches: Iterable[_Match]) -> str:
    """Return the text around a match, without what any check masks."""
    position = max(match.start - EXCERPT_CHARS, 0)
    last = match.end + EXCERPT_CHARS
    pieces: list[str] = []
    for check, other in matches:
        is_within = other.end > position and other.start < last
        if is_within and check.action(check.level_of(other)).mask:
            pieces += text[position : max(other.start, position)], f"[{other.label}]"
            position = other.end
    return "".join([*pieces, text[position:last]])
