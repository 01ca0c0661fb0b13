"""Suggestions for misspelt names."""

import difflib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from itertools import islice

MAX_CANDIDATES = 1000
"""The maximum number of names compared: a hundred take a millisecond."""

MAX_GUESSES = 100

MAX_NAME_LENGTH = 100
"""Characters compared per name: the cost grows with their square."""

_guesses: ContextVar[Iterator[int] | None] = ContextVar("guesses", default=None)


@contextmanager
def limit_guesses() -> Iterator[None]:
    """Limit suggestions to the first words: many mistakes would take minutes."""
    token = _guesses.set(iter(range(MAX_GUESSES)))
    try:
        yield
    finally:
        _guesses.reset(token)


def did_you_mean(word: str, candidates: Iterable[str]) -> str:
    """Return a sentence ending that suggests a candidate, or ""."""
    guesses = _guesses.get()
    if guesses is not None and next(guesses, None) is None:
        return ""
    if len(word) > MAX_NAME_LENGTH:
        return ""
    names = [
        name
        for name in islice(candidates, MAX_CANDIDATES)
        if len(name) <= MAX_NAME_LENGTH
    ]
    close = difflib.get_close_matches(word, names, n=1)
    return f"; did you mean '{close[0]}'?" if close else ""
