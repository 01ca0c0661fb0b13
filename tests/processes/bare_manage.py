"""`manage.py` on a machine Valkey has no wheel for."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

import manage
from processes.server import background_processes

background_processes.VALKEY_PACKAGE = "a_package_nobody_has"

if __name__ == "__main__":
    manage.main()
