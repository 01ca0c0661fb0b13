"""The programs of docs/clients.md, and what they need."""

import re
import shutil
from typing import NamedTuple

import pytest

from tests.docs.pages import BASE, BLOCK

PAGE = BASE / "docs" / "clients.md"
INSTALLED = BASE / ".clients"
LANGUAGES = ("python", "js", "sh")
"""The languages of programs; blocks in others are configurations."""
needs_packages = pytest.mark.skipif(
    not (INSTALLED / "node-installed").exists(), reason="run make test-clients"
)
needs_node = pytest.mark.skipif(
    shutil.which("node") is None, reason="node is not installed"
)


class Program(NamedTuple):
    """A code block of the page."""

    heading: str
    language: str
    text: str


def programs() -> list[Program]:
    """Return the code blocks of the page in their order."""
    sections = re.split(r"^## ", PAGE.read_text(), flags=re.MULTILINE)
    return [
        Program(section.partition("\n")[0], language, text)
        for section in sections
        for language, text in BLOCK.findall(section)
    ]


def program(heading: str, number: int = 1) -> Program:
    """Return a program of a section; the first one has the number 1."""
    found = [p for p in programs() if p.heading == heading and p.language in LANGUAGES]
    return found[number - 1]
