"""Each program of docs/clients.md is run by a test with the real packages."""

import re
from collections import Counter

import pytest

from tests.clients.programs import LANGUAGES, programs
from tests.docs.pages import BASE

RUN = re.compile(r'\brun\(\s*"([^"]+)"(?:, (\d+))?')


def runs() -> set[tuple[str, int]]:
    texts = [path.read_text() for path in (BASE / "tests/clients").glob("test_*.py")]
    return {
        (heading, int(number or 1))
        for text in texts
        for heading, number in RUN.findall(text)
    }


def test_each_program_is_run():
    counts = Counter(p.heading for p in programs() if p.language in LANGUAGES)
    assert runs() == {
        (heading, number)
        for heading, count in counts.items()
        for number in range(1, count + 1)
    }


@pytest.mark.parametrize(
    "name",
    [
        "requirements.txt",
        "requirements-aider.txt",
        "requirements-semantic-kernel.txt",
        "package.json",
    ],
)
def test_packages_have_exact_versions(name):
    lines = (BASE / "tests/clients" / name).read_text().splitlines()
    exact = r'^[\w\[\].-]+==[\w.]+( #.*)?$|^ {4}"[\w@/-]+": "[\d.]+",?$'
    named = [line for line in lines if re.search(r"\d", line)]
    assert named
    assert all(re.match(exact, line) for line in named), named
