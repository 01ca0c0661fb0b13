"""`coulisse sidecars`: runs the sidecars alone, without `start`."""

from typing import Any

from config import live
from config.management.base import ConfigCommand
from processes import sidecars
from processes.supervision import state_directory


class Command(ConfigCommand):
    """The process `start` runs, without its supervisor."""

    help = "Run the YAML's sidecars in the foreground until SIGTERM."

    def handle(self, **options: Any) -> None:
        state_directory.current_state().prepare()
        live.load_at_start()
        # There may be no web process here that stores the accepted configuration.
        watcher = live.ConfigWatcher()
        watcher.start()
        sidecars.run()
        watcher.stop()
