"""The base class of commands that use the database."""

import sys
from typing import Any

import orjson
from django.core.management.base import CommandError
from django.db import DatabaseError

from config.management.base import ConfigCommand


class DatabaseCommand(ConfigCommand):
    """A command that uses the database."""

    def execute(self, *args: Any, **options: Any) -> str | None:
        try:
            return super().execute(*args, **options)
        except DatabaseError as exc:
            raise CommandError(
                f"cannot use the database: {exc}. Run `coulisse migrate` to create "
                "its tables, or select another YAML file with -c"
            ) from exc

    def write_json(self, data: Any) -> None:
        self.stdout.write(orjson.dumps(data, option=orjson.OPT_INDENT_2).decode())


def ask_confirmation(action: str) -> bool:
    """Ask the user at the terminal to confirm an action, such as `erase`."""
    if not sys.stdin.isatty():
        raise CommandError(
            f"cannot ask for confirmation without a terminal; pass -y to {action}"
        )
    return input("Type 'yes' to continue: ").strip().lower() in ("y", "yes")
