"""`coulisse hash-password`: hash a password for coulisse.yaml."""  # noqa: N999

import getpass
import sys
from typing import Any

from django.contrib.auth import hashers
from django.core.management import CommandError

from access.authentication.secret_digests import SAFE_PASSWORD_CHARS
from config.management.base import ConfigCommand


class Command(ConfigCommand):
    """Read the password from a prompt, or from a line of stdin."""

    help = (
        "Print a hash of a password, for `password:` under auth: in the YAML. Prompts "
        "for the password, or reads it from a line of standard input."
    )
    needs_database = False

    def handle(self, **options: Any) -> None:
        if sys.stdin.isatty():
            password = getpass.getpass("Password: ")
            if getpass.getpass("Repeat password: ") != password:
                raise CommandError("the passwords do not match")
        else:
            password = sys.stdin.readline().rstrip("\r\n")
        if not password.strip():
            raise CommandError("the password is empty")
        if len(password) < SAFE_PASSWORD_CHARS:
            # `check` cannot test this: a hash does not reveal the password's length.
            self.stderr.write(
                f"the password is shorter than {SAFE_PASSWORD_CHARS} characters and "
                "easy to guess; use a longer one"
            )
        self.stdout.write(hashers.make_password(password))
