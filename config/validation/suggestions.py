"""What someone who misspelt a name probably meant."""

import difflib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from itertools import islice

MAX_CANDIDATES = 1000
"""Names that are compared: it takes a millisecond for a hundred."""

MAX_GUESSES = 100

MAX_NAME_LENGTH = 100
"""Characters of names that are compared, which takes time with their square."""

_guesses: ContextVar[Iterator[int] | None] = ContextVar("guesses", default=None)


@contextmanager
def limit_guesses() -> Iterator[None]:
    """Suggest something for the first words only, lest many mistakes take minutes."""
    token = _guesses.set(iter(range(MAX_GUESSES)))
    try:
        yield
    finally:
        _guesses.reset(token)


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return the end of a sentence which suggests a known name, or nothing."""
    guesses = _guesses.get()
    if guesses is not None and next(guesses, None) is None:
        return ""
    if len(word) > MAX_NAME_LENGTH:
        return ""
    names = [
        name for name in islice(known, MAX_CANDIDATES) if len(name) <= MAX_NAME_LENGTH
    ]
    close = difflib.get_close_matches(word, names, n=1)
    return f"; did you mean '{close[0]}'?" if close else ""
