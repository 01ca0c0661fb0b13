"""The command that installs packages where Coulisse runs."""

import importlib.util
import sys


def install_command() -> str:
    """Return the start of a command line: pip's, or uv's in environments of uv."""
    if importlib.util.find_spec("pip") is None:
        return f"uv pip install --python '{sys.executable}'"
    return f"'{sys.executable}' -m pip install"
