"""Read the pages of the documentation: code blocks, tables and headings."""

import re
from pathlib import Path

import pytest
from django.conf import settings

BASE = Path(settings.BASE_DIR)
PAGES = [BASE / "README.md", *sorted((BASE / "docs").glob("*.md"))]

BLOCK = re.compile(r"^```(\w*)\n(.*?)^```", re.DOTALL | re.MULTILINE)
LINK = re.compile(r"\]\(([^)\s]+)\)")
CODE = re.compile(r"`([^`]+)`")


def blocks(page: Path, language: str) -> list[str]:
    """Return the code blocks of a page in a language."""
    return [body for name, body in BLOCK.findall(page.read_text()) if name == language]


def all_blocks(language: str) -> list:
    """Return the blocks of all pages as test parameters."""
    return [
        pytest.param(body, id=f"{page.stem}-{number}")
        for page in PAGES
        for number, body in enumerate(blocks(page, language), start=1)
    ]


def table_rows(page: str, first_heading: str) -> list[list[str]]:
    """Return the rows of a page's tables whose header starts with a cell."""
    found, inside = [], False
    for line in (BASE / "docs" / page).read_text().splitlines():
        cells = [cell.strip() for cell in line.strip("|").split(" | ")]
        cells = [cell.removesuffix("|").strip() for cell in cells]
        if not line.startswith("|"):
            inside = False
        elif cells[0] == first_heading:
            inside = True
        elif inside and not line.startswith("|-"):
            found.append(cells)
    return found


def names_in_table(page: str, first_heading: str) -> set[str]:
    """Return the code in the first column of these tables."""
    return {
        name for row in table_rows(page, first_heading) for name in CODE.findall(row[0])
    }


def heading_anchors(page: Path) -> set[str]:
    """Return GitHub's anchors of a page's headings."""
    prose = BLOCK.sub("", page.read_text())
    headings = re.findall(r"^#+ (.+)$", prose, re.MULTILINE)
    slugs = (re.sub(r"[^\w\- ]", "", heading.lower()) for heading in headings)
    return {heading.replace(" ", "-") for heading in slugs}
