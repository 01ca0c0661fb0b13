"""`manage.py worker`: run background jobs here, where `start` does not."""

import sys
from typing import Any

from processes import state, worker
from processes.command import ProcessCommand


class Command(ProcessCommand):
    """The process `start` runs, without its supervisor."""

    help = "Run background jobs in the foreground until SIGTERM."

    def handle(self, **options: Any) -> None:
        state.current().prepare()
        sys.exit(worker.run())
