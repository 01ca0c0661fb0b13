"""Do two sentences about a user say the same, opposite things, or different ones?"""

import re
from typing import Literal

Verdict = Literal["same", "changed", "different"]


def compare(old: str, new: str) -> Verdict:
    """Return what a new fact is to an old one."""
    return "same" if is_identical(old, new) else "different"


def is_identical(old: str, new: str) -> bool:
    """Return whether two texts differ in nothing but case and punctuation."""
    return fold(old) == fold(new)


def fold(text: str) -> str:
    return " ".join(re.findall(r"\w+", text.casefold()))
