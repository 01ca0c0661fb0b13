"""`manage.py` with shorter timeouts than the real one."""

import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[3]))

import manage
from processes.server import stop_limits
from processes.supervision import heartbeat

stop_limits.CLEANUP_SECONDS = float(os.environ.get("CLEANUP_SECONDS", "1"))
heartbeat.INTERVAL_SECONDS = 1.5
heartbeat.MAX_MISSED = 3

if __name__ == "__main__":
    manage.main()
