import subprocess
import sys
from pathlib import Path

import pytest

PROSE = Path(__file__).parents[1] / "tools" / "prose.py"


def find_wordings(directory: Path, name: str, text: str) -> list[str]:
    """Run the check on one file of a repository."""
    subprocess.run(["git", "init", "--quiet"], cwd=directory, check=True)
    (directory / name).write_text(text)
    subprocess.run(["git", "add", name], cwd=directory, check=True)
    ran = subprocess.run(
        [sys.executable, PROSE],
        cwd=directory,
        capture_output=True,
        text=True,
        check=False,
    )
    found = ran.stdout.splitlines()
    assert ran.returncode == bool(found), ran.stderr
    return found


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("page.md", "Nobody has said who may open it."),
        ("page.md", "A model is told the rules."),
        ("page.md", "It stops.\nWho is too slow to take it is sent a new snapshot."),
        ("page.md", "The winner stays, for it is late."),
        ("page.html", "<p>Facts of which there is one.</p>"),
        ("page.html", '{% include "a.html" with title="Mint a token" %}'),
        ("module.py", 'ERROR = "a task is tried again"\n'),
        ("module.py", "# The database is away.\nx = 1\n"),
        ("module.py", '"""Facts that were\nlearnt from a turn."""\n'),
        ("script.js", 'show("the run was broken off");'),
        ("starter.yaml", "key: 1  # for whoever asks\n"),
    ],
)
def test_prose_check_finds_wording(tmp_path, name: str, text: str) -> None:
    (found,) = find_wordings(tmp_path, name, text)
    assert found.startswith(f"{name}:")


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("page.md", "What is a turn? The model `nobody` answers."),
        ("page.html", "{% if said %}<p>{{ nobody }}: 3 facts</p>{% endif %}"),
        ("module.py", "lessons = nobody = 1\n"),
        ("script.js", "const learnt = anew;"),
        ("starter.yaml", "nobody: anew\n"),
        ("data.txt", "nobody"),
    ],
)
def test_prose_check_ignores_names_and_code(tmp_path, name: str, text: str) -> None:
    assert find_wordings(tmp_path, name, text) == []
