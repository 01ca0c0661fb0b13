"""`coulisse start`: serve the YAML."""

import logging
from argparse import ArgumentTypeError
from typing import Any

from django.conf import settings
from django.core.management.base import CommandParser
from django.db import DatabaseError

from config.loading import loader
from config.management.base import ConfigCommand
from config.sections import Config
from memory.sessions import session_end
from processes.errors import AlreadyRunning
from processes.server import (
    background_server,
    foreground_server,
    server_plan,
    startup_banner,
)
from processes.server.running_server import find_running, is_serving_config
from processes.supervision import state_directory
from processes.supervision.run_state import RunRecord
from processes.supervision.state_directory import StateDir

DETACHED_LIMIT_SECONDS = 60.0
"""Enough for small, busy machines; a server that cannot start ends sooner by itself."""

logger = logging.getLogger(__name__)


def parse_seconds(text: str) -> float:
    """Return the option's value; raises ArgumentTypeError."""
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if value <= 0:
        raise ArgumentTypeError(f"{text!r} is not a positive number of seconds")
    return value


class Command(ConfigCommand):
    """Checks the configuration, then starts in the foreground or the background."""

    help = (
        "Start the server in the background and return when it answers. Exits 0 if it "
        "already runs, 1 if it cannot start."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        super().add_arguments(parser)
        parser.add_argument(
            "-F",
            "--foreground",
            action="store_true",
            help="Stay attached; the log goes to the terminal.",
        )
        parser.add_argument(
            "--timeout",
            type=parse_seconds,
            metavar="SECONDS",
            help="Time limit for the server to answer (default: "
            f"{DETACHED_LIMIT_SECONDS:g}; in the foreground, none).",
        )

        parser.add_argument(
            "--no-migrate",
            action="store_true",
            help="Wait for `coulisse migrate` instead of applying migrations, as with "
            "COULISSE_MIGRATE=off.",
        )

    def handle(self, **options: Any) -> None:
        if options["no_migrate"]:
            settings.COULISSE_MIGRATE = False
        config = loader.load_file(self.config_path(options))
        planned = server_plan.plan_server(config)
        files = state_directory.current_state()
        files.prepare()
        if options["foreground"]:
            server = foreground_server.ForegroundServer(
                planned, files, announce=lambda run: self._print_serving(config, run)
            )
            server.serve(options["timeout"])
            self._end_sessions(config)
        elif not self._is_running(config, files):
            self._detach(config, files, options["timeout"] or DETACHED_LIMIT_SECONDS)

    def _end_sessions(self, config: Config) -> None:
        try:
            session_end.end_at_shutdown(config)
        except DatabaseError:
            # They end later, when they have been idle.
            logger.warning("could not end sessions", exc_info=True)

    def _detach(self, config: Config, files: StateDir, limit_seconds: float) -> None:
        try:
            run = background_server.start(
                config.path, files, limit_seconds=limit_seconds, report=self._print
            )
        except AlreadyRunning as exc:
            self.stdout.write(str(exc))
        else:
            self._print_banner(config, run)

    def _print(self, line: str) -> None:
        # A terminal that cannot encode the arrows must not end the server.
        encoding = getattr(self.stdout, "encoding", None) or "utf-8"
        self.stdout.write(line.encode(encoding, errors="replace").decode(encoding))
        self.stdout.flush()

    def _is_running(self, config: Config, files: StateDir) -> bool:
        running = find_running(files)
        if running is None:
            return False
        pid, run = running
        if run is not None and not is_serving_config(run, config.path):
            raise AlreadyRunning(
                pid,
                f" with {run.config}: stop it, or move one YAML to another directory",
            )
        self.stdout.write(f"already running (pid {pid})")
        return True

    def _print_serving(self, config: Config, run: RunRecord) -> None:
        if run.is_detached:
            # Programs may read the log; the starting terminal prints the banner.
            logger.info("serving %s at %s (pid %d)", run.config, run.url, run.pid)
        else:
            self._print_banner(config, run)

    def _print_banner(self, config: Config, run: RunRecord) -> None:
        self._print(startup_banner.render(config, run))
