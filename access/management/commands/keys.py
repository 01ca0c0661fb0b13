"""`coulisse keys`: the secret keys that all processes of a database share."""

import uuid
from typing import Any

from django.core.management.base import CommandError, CommandParser

from access.users import user_namespace
from config.loading import secrets_file
from config.management.base import ConfigCommand


class Command(ConfigCommand):
    """Prints new keys, or stores them for a single machine."""

    help = (
        "Print new secret keys as lines of an environment file. All processes that "
        "share a PostgreSQL database need the same keys."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        super().add_arguments(parser)
        actions = parser.add_mutually_exclusive_group()
        actions.add_argument(
            "--write",
            action="store_true",
            help="Store them in secrets.env of the state directory, if it has none.",
        )
        actions.add_argument(
            "--accept",
            action="store_true",
            help="After a change of keys: let processes with the present ones start.",
        )

    def handle(self, **options: Any) -> None:
        if options["accept"]:
            user_namespace.accept_keys()
            self.stdout.write(f"accepted: {secrets_file.key_ids()}")
        elif options["write"]:
            self._write()
        else:
            if (file := secrets_file.secrets_path()).exists():
                self.stderr.write(
                    f"note: {file} has the keys of this machine's data; a database "
                    "that has been used with them, or gets that data, needs those"
                )
            for name, value in secrets_file.generate().items():
                self.stdout.write(f"{name}={value}")

    def _write(self) -> None:
        file = secrets_file.secrets_path()
        if file.exists():
            raise CommandError(f"{file} exists: the keys of this machine are there")
        secrets_file.create_file(file, user_namespace=uuid.uuid4())
        self.stdout.write(f"wrote {file}; keep a copy of it")
