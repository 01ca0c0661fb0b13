"""`manage.py demo`: a month of invented traffic, for pictures and for load."""

import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from django.core.management.base import CommandError, CommandParser
from django.db import transaction

from config.loading import loader, reader
from config.management.database_command import DatabaseCommand
from config.sections import Config
from config.starters import starter_file
from demo import removal, sample_users
from demo.generator import DemoGenerator, DemoSize

SIZE = DemoSize()


class Command(DatabaseCommand):
    """Fill the database, or take away what filled it."""

    help = "Fill the database with a month of invented traffic; no provider is called."

    def add_arguments(self, parser: CommandParser) -> None:
        super().add_arguments(parser)
        parser.add_argument(
            "--init",
            action="store_true",
            help="Write the YAML of the demo's agents, and do no more.",
        )
        parser.add_argument(
            "--clear", action="store_true", help="Delete all that it made."
        )
        parser.add_argument(
            "--force",
            action="store_true",
            help="Fill a database that has real users, overwrite a YAML.",
        )
        for name, told in TOLD.items():
            default = getattr(SIZE, name)
            parser.add_argument(
                f"--{name}",
                type=int,
                metavar="N",
                default=default,
                help=f"{told}; {default:,} unless given.",
            )

    def handle(self, **options: Any) -> None:
        if options["init"]:
            path = self.config_path(options)
            starter_file.write_starter("demo", path, force=options["force"])
            self.stdout.write(
                f"wrote {reader.display_path(path)}: a small theatre's agents"
            )
        elif options["clear"]:
            self.stdout.write(f"deleted {removal.delete_demo():,} rows")
        else:
            self._fill(options)

    def _fill(self, options: dict[str, Any]) -> None:
        size = DemoSize(**{name: options[name] for name in TOLD})
        check(size)
        with transaction.atomic():
            if removal.count_users():
                raise CommandError("a demo is there already: --clear deletes it first")
            if not options["force"] and removal.is_used_by_others():
                raise CommandError(
                    "the database has real users: name an empty one by -c, or pass "
                    "--force to put the demo beside them"
                )
            begun = time.monotonic()
            month = DemoGenerator(load_demo_config(), size, datetime.now(UTC))
            month.fill(self._tell)
        self.stdout.write(
            f"{size.users:,} users, {month.turns:,} turns and {month.messages:,} "
            f"messages of {size.days} days, in {time.monotonic() - begun:.0f} s"
        )

    def _tell(self, done: int) -> None:
        if done % 1_000 == 0:
            self.say(f"{done:,} users")


TOLD = {
    "users": "People",
    "turns": "Turns of theirs that are recorded",
    "days": "Days they are of",
    "messages": "Least messages, with what was said before",
    "seed": "The same one makes the same again",
}


def check(size: DemoSize) -> None:
    """Refuse what cannot be made."""
    if not 1 <= size.users <= sample_users.MOST:
        raise CommandError(f"--users must be from 1 to {sample_users.MOST:,}")
    if size.turns < 0 or size.messages < 0 or not 1 <= size.days <= 365:
        raise CommandError("--turns and --messages must be from 0, --days 1 to 365")


def load_demo_config() -> Config:
    """Return the configuration of the demo's agents, whatever file is in force."""
    return loader.load_file(Path(starter_file.TEMPLATES) / "demo.yaml")
