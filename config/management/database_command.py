"""The base class of commands that use the database."""

import os
import sys
from typing import Any

import orjson
from django.core.management.base import CommandError
from django.db import DatabaseError

from config.management.base import ConfigCommand

BROKEN_PIPE = 141
"""The conventional exit code after a closed output pipe, as with `| head`."""


class DatabaseCommand(ConfigCommand):
    """A command that uses the database."""

    def execute(self, *args: Any, **options: Any) -> str | None:
        try:
            output = super().execute(*args, **options)
            sys.stdout.flush()
            return output
        except BrokenPipeError:
            # Python flushes again at exit and would report the closed pipe.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise SystemExit(BROKEN_PIPE) from None
        except DatabaseError as exc:
            raise CommandError(
                f"cannot use the database: {exc}. Run `manage.py migrate` to create "
                "its tables, or select another YAML file with -c"
            ) from exc

    def write_note(self, text: str) -> None:
        """Write a note to stderr, separate from the requested output."""
        # Without the red style of errors.
        self.stderr.write(text, str)

    def write_json(self, data: Any) -> None:
        self.stdout.write(orjson.dumps(data, option=orjson.OPT_INDENT_2).decode())


def ask_confirmation(action: str) -> bool:
    """Ask the user at the terminal to confirm an action, such as `erase`."""
    if not sys.stdin.isatty():
        raise CommandError(
            f"cannot ask for confirmation without a terminal; pass -y to {action}"
        )
    return input("Type 'yes' to continue: ").strip().lower() in ("y", "yes")
