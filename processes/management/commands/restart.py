"""`coulisse restart`: stop, then start."""

from typing import Any

from django.core.management import call_command
from django.core.management.base import CommandParser

from access.errors import NamespaceMismatch
from access.users import user_namespace
from config.loading import loader
from processes.management.commands import start
from processes.server import server_plan
from processes.server.running_server import require_same_config
from processes.supervision import state_directory


class Command(start.Command):
    """Takes the options of `start`; stops the server first."""

    help = "Stop the server if it runs, then start it. Takes the options of start."

    def add_arguments(self, parser: CommandParser) -> None:
        super().add_arguments(parser)
        parser.add_argument(
            "--force", action="store_true", help="Kill the running server at once."
        )

    def handle(self, **options: Any) -> None:
        # Run `start`'s checks first, so that an error does not stop the running server.
        server_plan.plan_server(loader.load_file(self.config_path(options)))
        if problem := user_namespace.inspect().problem:
            raise NamespaceMismatch(detail=problem)
        if not options["force"]:
            require_same_config(
                state_directory.current_state(), self.config_path(options)
            )
        call_command("stop", force=options["force"], stdout=self.stdout)
        super().handle(**options)
