"""The id of the server start that a process belongs to."""

import os

VARIABLE = "COULISSE_START"
"""The variable in which `start` passes the id. Separate workers have none."""


def read_id() -> str:
    """Return the id of this process's start; empty if it has none."""
    return os.environ.get(VARIABLE, "")
