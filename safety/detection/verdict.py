"""What a check by a provider says of a text."""

from typing import NamedTuple


class Verdict(NamedTuple):
    level: str
    """"" if nothing was found."""
    reason: str
