"""What is seen of a page, measured in the browser by `looking.js`."""

from pathlib import Path
from typing import Any

SCRIPT = Path(__file__).with_suffix(".js")
STEPS = 40
MOST_STEPS = 1200


def walk(page: Any) -> tuple[list[str], list[str]]:
    """Go through a page by the Tab key.

    Returns what was not reached, and what was without being marked as focused.
    """
    page.evaluate("looking.walk()")
    for _ in range(MOST_STEPS // STEPS):
        for _ in range(STEPS):
            page.keyboard.press("Tab")
        left: list[str] = page.evaluate("looking.leftOut()")
        if not left or page.evaluate("walked.over"):
            break
    return left, page.evaluate("walked.unseen")


def faint(page: Any) -> list[str]:
    """Return texts that are hard to read."""
    found: list[str] = page.evaluate("looking.faint()")
    return found


def is_dark(page: Any) -> bool:
    """Return whether the page's ground is dark."""
    return bool(page.evaluate("looking.isDark()"))
