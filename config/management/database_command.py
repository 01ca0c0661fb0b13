"""The base class of commands that use the database."""

import os
import sys
from typing import Any

import orjson
from django.core.management.base import CommandError
from django.db import DatabaseError

from config.management.base import ConfigCommand
from core.errors import CoulisseError

INTERRUPTED = 130
"""The conventional exit code after ^C."""
BROKEN_PIPE = 141
"""The conventional exit code after a closed output pipe, as with `| head`."""


class DatabaseCommand(ConfigCommand):
    """A command that uses the database; a `CoulisseError` ends it with exit code 1."""

    def execute(self, *args: Any, **options: Any) -> str | None:
        try:
            told = super().execute(*args, **options)
            sys.stdout.flush()
            return told
        except BrokenPipeError:
            # Python flushes again at exit and would report the closed pipe.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise SystemExit(BROKEN_PIPE) from None
        except CoulisseError as exc:
            raise CommandError(str(exc)) from exc
        except DatabaseError as exc:
            raise CommandError(
                f"the database cannot be used: {exc}. `manage.py migrate` makes its "
                "tables, -c names another YAML"
            ) from exc
        except KeyboardInterrupt as exc:
            raise CommandError("interrupted", returncode=INTERRUPTED) from exc

    def say(self, text: str) -> None:
        """Write a remark to stderr, separate from the requested output."""
        # Without the red style of errors.
        self.stderr.write(text, str)

    def write_json(self, told: Any) -> None:
        """Write a JSON document."""
        self.stdout.write(orjson.dumps(told, option=orjson.OPT_INDENT_2).decode())


def ask_confirmation(deed: str) -> bool:
    """Ask the user at the terminal to confirm an action, such as `erase`."""
    if not sys.stdin.isatty():
        raise CommandError(f"there is no terminal to ask at: pass -y to {deed}")
    return input("Type 'yes' to go on: ").strip().lower() in ("y", "yes")
