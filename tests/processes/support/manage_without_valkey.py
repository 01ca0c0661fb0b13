"""`manage.py` on a machine without Valkey's package."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[3]))

import manage
from processes.server import background_processes

background_processes.VALKEY_PACKAGE = "a_missing_package"

if __name__ == "__main__":
    manage.main()
