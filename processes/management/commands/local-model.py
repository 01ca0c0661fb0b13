"""`coulisse local-model`: serves the small offline model alone."""  # noqa: N999

from typing import Any

from django.core.management.base import CommandParser

from config.management.base import ConfigCommand
from processes.local_model.__main__ import LOOPBACK, serve
from processes.server import server_plan

DEFAULT_PORT = 8422


class Command(ConfigCommand):
    """The process `start` runs for a provider of the kind `local`."""

    help = (
        "Serve the small offline model in the foreground until SIGTERM, for the "
        "`base_url` of providers on other machines and in separate workers."
    )
    needs_database = False

    def add_arguments(self, parser: CommandParser) -> None:
        super().add_arguments(parser)
        parser.add_argument(
            "--host",
            default=LOOPBACK,
            help="Its address (default: %(default)s). It asks for no key.",
        )
        parser.add_argument(
            "--port", type=int, default=DEFAULT_PORT, help="default: %(default)s"
        )

    def handle(self, **options: Any) -> None:
        server_plan.require_local_packages("local")
        host, port = options["host"], options["port"]
        self.stdout.write(f"serving http://{host}:{port}/v1")
        self.stdout.flush()
        serve(host, port)
