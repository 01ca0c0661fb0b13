"""What a check by a provider says of a text."""

from typing import NamedTuple


class Verdict(NamedTuple):
    level: str
    """"" if nothing was found."""
    reason: str
    start: int = 0
    """The position in the text, if a rule has found it."""
