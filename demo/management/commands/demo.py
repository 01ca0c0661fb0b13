"""`coulisse demo`: fills the database with simulated traffic."""

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
    """Writes the sample data, or deletes it."""

    help = "Fill the database with a month of simulated traffic; calls no provider."

    def add_arguments(self, parser: CommandParser) -> None:
        super().add_arguments(parser)
        parser.add_argument(
            "--init",
            action="store_true",
            help="Only write the YAML of the demo's agents.",
        )
        parser.add_argument(
            "--clear", action="store_true", help="Delete the sample data."
        )
        parser.add_argument(
            "--force",
            action="store_true",
            help="Fill a database that has other users; overwrite the YAML.",
        )
        for name, text in OPTIONS.items():
            default = getattr(SIZE, name)
            parser.add_argument(
                f"--{name}",
                type=int,
                metavar="N",
                default=default,
                help=f"{text} (default: {default:,}).",
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
        size = DemoSize(**{name: options[name] for name in OPTIONS})
        check_size(size)
        with transaction.atomic():
            if removal.count_users():
                raise CommandError(
                    "the database has sample data already: delete it with --clear first"
                )
            if not options["force"] and removal.is_used_by_others():
                raise CommandError(
                    "the database has other users: select an empty one with -c, or add "
                    "the sample data to it with --force"
                )
            started_at = time.monotonic()
            generator = DemoGenerator(load_demo_config(), size, datetime.now(UTC))
            generator.fill(self._report)
        seconds = time.monotonic() - started_at
        self.stdout.write(
            f"{size.users:,} users, {generator.turns:,} turns and "
            f"{generator.messages:,} messages of {size.days} days, in {seconds:.0f} s"
        )

    def _report(self, count: int) -> None:
        if count % 1_000 == 0:
            self.write_note(f"{count:,} users")


OPTIONS = {
    "users": "Number of users",
    "turns": "Number of recorded turns",
    "days": "Number of days",
    "messages": "Minimum number of messages, including older ones",
    "seed": "Seed of the random numbers; equal seeds create equal data",
}


def check_size(size: DemoSize) -> None:
    """Raise CommandError for an invalid size."""
    if not 1 <= size.users <= sample_users.MAX_USERS:
        raise CommandError(f"--users must be from 1 to {sample_users.MAX_USERS:,}")
    if size.turns < 0 or size.messages < 0 or not 1 <= size.days <= 365:
        raise CommandError(
            "--turns and --messages must be at least 0, --days from 1 to 365"
        )


def load_demo_config() -> Config:
    """Return the configuration of the demo's agents, not the current YAML."""
    return loader.load_file(Path(starter_file.TEMPLATES) / "demo.yaml")
