"""`manage.py worker`: runs background jobs alone, without `start`."""

import sys
from typing import Any

from processes import worker
from processes.server.base_command import ProcessCommand
from processes.supervision import state_directory


class Command(ProcessCommand):
    """The process `start` runs, without its supervisor."""

    help = "Run background jobs in the foreground until SIGTERM."

    def handle(self, **options: Any) -> None:
        state_directory.current_state().prepare()
        sys.exit(worker.run())
