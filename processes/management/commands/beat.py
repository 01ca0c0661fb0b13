"""`manage.py beat`: send what is due from here, where `start` does not."""

from typing import Any

from processes import beat, state
from processes.command import ProcessCommand


class Command(ProcessCommand):
    """The process `start` runs, without its supervisor."""

    help = "Send scheduled jobs in the foreground until SIGTERM; one is enough."

    def handle(self, **options: Any) -> None:
        state.current().prepare()
        beat.run()
