"""Checks by rules, which need no model."""

from collections.abc import Iterator

import orjson

from core.text.injection import deobfuscation, injection_filter
from core.text.sanitization import shorten_middle
from safety.config import SafetyCheck
from safety.detection.matches import Match
from safety.detection.personal_data import find_personal_data

OVERLAP = 200
"""Characters that two checked parts of a long text have in common."""


def find_matches(check: SafetyCheck, text: str) -> list[Match]:
    """Return what a rule finds in a text, in the order of the text."""
    detector = check.by
    if detector.regex is not None:
        found = _match_patterns(check, text)
    elif detector.pii is not None:
        found = find_personal_data(text, detector.pii)
    elif detector.injection:
        found = _find_injections(text)
    else:
        found = _find_mismatches(check, text)
    return sorted(found, key=lambda match: (match.start, -match.end))


def _match_patterns(check: SafetyCheck, text: str) -> Iterator[Match]:
    for level, pattern in check.by.patterns:
        for found in pattern.finditer(text):
            if found.end() > found.start():
                yield Match(found.start(), found.end(), check.name, level)


def _find_injections(text: str) -> Iterator[Match]:
    size = deobfuscation.MAX_LENGTH
    for start in range(0, len(text), size - OVERLAP):
        found = injection_filter.find_override(text[start : start + size])
        if found:
            # Disguised ones are not found again.
            place = max(text.find(found, start, start + size), start)
            yield Match(place, min(start + size, len(text)), found.strip()[:80])


def _find_mismatches(check: SafetyCheck, text: str) -> Iterator[Match]:
    """Yield the whole reply if it is not JSON, or does not match the schema."""
    try:
        value = orjson.loads(text)
    except ValueError:
        yield Match(0, len(text), "is not JSON")
        return
    error = next(check.by.validator.iter_errors(value), None)
    if error is not None:
        yield Match(0, len(text), shorten_middle(error.message, 300))
