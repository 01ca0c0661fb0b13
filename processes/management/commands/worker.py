"""`coulisse worker`: runs background jobs alone, without `start`."""

import sys
from typing import Any

from django.core.management.base import CommandParser

from config.management.base import ConfigCommand
from processes import worker
from processes.supervision import state_directory


class Command(ConfigCommand):
    """The process `start` runs, without its supervisor. The options are Celery's."""

    help = "Run background jobs in the foreground until SIGTERM."

    def add_arguments(self, parser: CommandParser) -> None:
        super().add_arguments(parser)
        parser.add_argument(
            "-Q",
            "--queues",
            help="Only these queues, separated by commas: agents, judges, memory, "
            "shadow, maintenance.",
        )
        parser.add_argument(
            "--concurrency",
            type=int,
            default=0,
            metavar="N",
            help="Tasks at a time (default: `tasks.workers` of the YAML).",
        )
        parser.add_argument(
            "-n",
            "--hostname",
            help="Name of the worker in Celery's tools (default: celery@HOST).",
        )
        parser.add_argument(
            "-E",
            "--task-events",
            action="store_true",
            help="Send events from the start.",
        )

    def handle(self, **options: Any) -> None:
        state_directory.current_state().prepare()
        names = ("queues", "concurrency", "hostname", "task_events")
        sys.exit(worker.run(**{name: options[name] for name in names if options[name]}))
