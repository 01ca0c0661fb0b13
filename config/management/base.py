"""The base class of Coulisse's commands."""

import os
import sys
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser

from config.management import config_option
from core.errors import CoulisseError
from core.version import VERSION
from database import rust_database

INTERRUPTED = 130
"""The conventional exit code after ^C."""
BROKEN_PIPE = 141
"""The conventional exit code after a closed output pipe, as with `| head`."""


class ConfigCommand(BaseCommand):
    """A command about one YAML file, named by `-c`.

    It prints the message of a `CoulisseError` and exits with 1.
    """

    # Each command declares its own checks: `stop` must work even with an invalid YAML.
    requires_system_checks = ()
    needs_database = True
    """Whether it refuses the database of the Rust version in place of ours."""

    def execute(self, *args: Any, **options: Any) -> str | None:
        try:
            if self.needs_database:
                rust_database.refuse()
            output = super().execute(*args, **options)
            sys.stdout.flush()
            return output
        except BrokenPipeError:
            # Python flushes again at exit and would report the closed pipe.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise SystemExit(BROKEN_PIPE) from None
        except CoulisseError as exc:
            raise CommandError(str(exc)) from exc
        except KeyboardInterrupt as exc:
            raise CommandError("interrupted", returncode=INTERRUPTED) from exc

    def get_version(self) -> str:
        return VERSION

    def create_parser(
        self, prog_name: str, subcommand: str, **kwargs: Any
    ) -> CommandParser:
        # Disabled because the settings would not recognize an abbreviation such as
        # `--conf`.
        return super().create_parser(
            prog_name, subcommand, **{"allow_abbrev": False, **kwargs}
        )

    def add_arguments(self, parser: CommandParser) -> None:
        super().add_arguments(parser)
        config_option.add_option(parser)

    def write_note(self, text: str) -> None:
        """Write a note to stderr, separate from the requested output."""
        # Without the red style of errors.
        self.stderr.write(text, str)

    def config_path(self, options: dict[str, Any]) -> Path:
        """Return the path from `-c`, or the one in the settings."""
        given = options.get("config")
        return Path(given).absolute() if given else Path(settings.COULISSE_CONFIG)
