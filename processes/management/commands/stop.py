"""`coulisse stop`: stops the running server."""

from typing import Any

from django.core.management.base import CommandParser

from config.management.base import ConfigCommand
from processes.server import shutdown
from processes.server.running_server import require_same_config
from processes.supervision import state_directory


class Command(ConfigCommand):
    """Prints the pid of the stopped server."""

    help = (
        "Stop the server; open replies and running tasks may finish "
        "(server.drain_seconds, tasks.drain_seconds). Exits 0 if no server runs, 1 if "
        "the server does not end in that time."
    )
    needs_database = False

    def add_arguments(self, parser: CommandParser) -> None:
        super().add_arguments(parser)
        parser.add_argument(
            "--force", action="store_true", help="End its processes at once."
        )

    def handle(self, **options: Any) -> None:
        files = state_directory.current_state()
        if options["config"] and not options["force"]:
            require_same_config(files, self.config_path(options))
        had_pid_file = files.pid.exists()
        pid = shutdown.stop_server(
            files, force=options["force"], report=self.stderr.write
        )
        if pid is not None:
            self.stdout.write(f"stopped (pid {pid})")
        elif had_pid_file:
            self.stdout.write("not running; removed a stale pid file")
        else:
            self.stdout.write("not running")
