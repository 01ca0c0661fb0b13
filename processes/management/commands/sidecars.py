"""`manage.py sidecars`: run the sidecars here, where `start` does not."""

from typing import Any

from processes import sidecars, state
from processes.command import ProcessCommand


class Command(ProcessCommand):
    """The process `start` runs, without its supervisor."""

    help = "Run the YAML's sidecars in the foreground until SIGTERM."

    def handle(self, **options: Any) -> None:
        state.current().prepare()
        sidecars.run()
