"""Layout checks that `layout_checks.js` runs in the browser."""

from pathlib import Path
from typing import Any

SCRIPT = Path(__file__).with_suffix(".js")
TABS_PER_CHECK = 40
MOST_TABS = 1200


def tab_through(page: Any) -> tuple[list[str], list[str]]:
    """Walk through a page with the Tab key.

    Returns the controls that were not reached, and those without a visible focus.
    """
    page.evaluate("layoutChecks.recordFocus()")
    for _ in range(MOST_TABS // TABS_PER_CHECK):
        for _ in range(TABS_PER_CHECK):
            page.keyboard.press("Tab")
        unreached: list[str] = page.evaluate("layoutChecks.unreachedControls()")
        if not unreached or page.evaluate("focusRecord.isComplete"):
            break
    return unreached, page.evaluate("focusRecord.unmarked")


def low_contrast_texts(page: Any) -> list[str]:
    """Return texts below WCAG's contrast ratio (AA), each with its ratio."""
    texts: list[str] = page.evaluate("layoutChecks.lowContrastTexts()")
    return texts


def is_dark(page: Any) -> bool:
    """Return whether the page has a dark background."""
    return bool(page.evaluate("layoutChecks.isDark()"))
