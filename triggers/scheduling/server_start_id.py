"""How processes know which start of the server they are of."""

import os

VARIABLE = "COULISSE_START"
"""The variable in which `start` tells its processes. Workers run apart have none."""


def read_id() -> str:
    """Return the name of this process's start; empty where it is of none."""
    return os.environ.get(VARIABLE, "")
