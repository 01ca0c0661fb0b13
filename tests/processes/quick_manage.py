"""`manage.py` that waits for nothing as long as the real one does."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

import manage
from processes import plan, supervisor

plan.DRAIN_SECONDS = 1
supervisor.STOP_SECONDS = 2.0
supervisor.BEAT_LOOK_SECONDS = 1.5
supervisor.BEATS_MISSED = 2

if __name__ == "__main__":
    manage.main()
