"""What commands that use the database have in common."""

import os
import sys
from typing import Any

import orjson
from django.core.management.base import CommandError
from django.db import DatabaseError

from config.management.base import ConfigCommand
from core.errors import CoulisseError

INTERRUPTED = 130
"""What shells expect of a program ended by ^C."""
BROKEN_PIPE = 141
"""What they expect of one whose output is read no further, as by `| head`."""


class DatabaseCommand(ConfigCommand):
    """A command about what is stored; a `CoulisseError` ends it with exit 1."""

    def execute(self, *args: Any, **options: Any) -> str | None:
        try:
            told = super().execute(*args, **options)
            sys.stdout.flush()
            return told
        except BrokenPipeError:
            # Python flushes once more as it ends, and would complain of that.
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
        """Write a remark, where it is in nobody's way who reads what was asked for."""
        # Not in red, as errors are.
        self.stderr.write(text, str)

    def write_json(self, told: Any) -> None:
        """Write a document for programs."""
        self.stdout.write(orjson.dumps(told, option=orjson.OPT_INDENT_2).decode())


def ask_confirmation(deed: str) -> bool:
    """Ask whoever is at the terminal whether to do it: `erase`, say."""
    if not sys.stdin.isatty():
        raise CommandError(f"there is no terminal to ask at: pass -y to {deed}")
    return input("Type 'yes' to go on: ").strip().lower() in ("y", "yes")
