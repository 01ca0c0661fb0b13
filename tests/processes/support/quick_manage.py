"""`manage.py` with shorter timeouts than the real one."""

import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[3]))

import manage
from processes.server import server_plan
from processes.supervision import heartbeat, supervisor

server_plan.DRAIN_SECONDS = 1
supervisor.STOP_SECONDS = float(os.environ.get("STOP_SECONDS", "2"))
heartbeat.INTERVAL_SECONDS = 1.5
heartbeat.MAX_MISSED = 3

if __name__ == "__main__":
    manage.main()
