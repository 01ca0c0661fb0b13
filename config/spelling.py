"""What someone who misspelt a name probably meant."""

import difflib
from collections.abc import Iterable
from itertools import islice

MOST_KNOWN = 1000
"""Names that are compared: it takes a millisecond for a hundred."""


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return the end of a sentence which suggests a known name, or nothing."""
    close = difflib.get_close_matches(word, list(islice(known, MOST_KNOWN)), n=1)
    return f"; did you mean '{close[0]}'?" if close else ""
