"""`coulisse beat`: runs beat alone, without `start`."""

from typing import Any

from config.management.base import ConfigCommand
from processes import beat
from processes.supervision import state_directory


class Command(ConfigCommand):
    """The process `start` runs, without its supervisor."""

    help = "Send periodic jobs in the foreground until SIGTERM. One process is enough."

    def handle(self, **options: Any) -> None:
        state_directory.current_state().prepare()
        beat.run()
