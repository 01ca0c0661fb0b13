"""The programs of docs/clients.md, run as they are against the real server."""

import os
import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.clients.programs import INSTALLED, program, programs

ADDRESS = "http://localhost:8421"
TIMEOUT_SECONDS = 300
KEY = "api_key: ${OPENAI_API_KEY}"
SCRIPTED = "api_key: sk-scripted\n    base_url: {fake}/v1\n    retries: 0"
QUIET = {
    # No client of a test may send anything to its maker.
    "DO_NOT_TRACK": "1",
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    "OPENAI_AGENTS_DISABLE_TRACING": "1",
    "PYTHONWARNINGS": "ignore",
}


@pytest.fixture
def address(running: str, configure: Callable[[str], None]) -> str:
    """Configure the server as the page says, except for the provider's address."""
    text = next(p.text for p in programs() if p.language == "yaml")
    assert KEY in text
    configure(text.replace(KEY, SCRIPTED))
    return running


@pytest.fixture
def run(address: str, user: str, tmp_path: Path) -> Callable[..., list[str]]:
    """Return a function that runs a program of the page and returns its lines.

    The server's address and the user are replaced, and nothing else.
    """

    def run(
        heading: str, number: int = 1, *, packages: str = "main", server: str = address
    ) -> list[str]:
        _, language, text = program(heading, number)
        text = re.sub(r"\bada\b", user, text.replace(ADDRESS, server))
        bin_path = INSTALLED / packages / "bin"
        commands = {
            "python": [bin_path / "python", "-c", text],
            "js": ["node", "--input-type=module", "--eval", text],
            "sh": ["bash", "-e", "-c", text],
        }
        done = subprocess.run(
            commands[language],
            stdin=subprocess.DEVNULL,
            text=True,
            capture_output=True,
            timeout=TIMEOUT_SECONDS,
            # Imports of JavaScript are found from the working directory.
            cwd=INSTALLED if language == "js" else tmp_path,
            env=environment(bin_path, tmp_path),
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout.splitlines()

    return run


def environment(bin_path: Path, home: Path) -> dict[str, str]:
    """Return variables without keys, and with a home directory of the test."""
    path = f"{bin_path}{os.pathsep}{os.environ['PATH']}"
    return {"PATH": path, "HOME": str(home), **QUIET}


@pytest.fixture
def umbrella(fake):
    """Script a call, its answer, and the answer to a second question."""
    fake.call_tool("get_weather", {"city": "Oslo"})
    fake.reply("Yes", ".")
    fake.reply("It ", "rains.")
    return fake


@pytest.fixture
def names(fake):
    """Script two answers."""
    fake.reply("Hello ", "Ada.")
    fake.reply("Ada", ".")
    return fake
