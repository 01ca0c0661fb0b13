"""`manage.py triggers`: what starts agents, what came of it, and firing one by hand."""

from argparse import ArgumentParser
from datetime import UTC, datetime
from functools import partial
from typing import Any

import orjson
from django.conf import settings
from django.core.management.base import CommandError, CommandParser
from django.utils.module_loading import import_string

from access import audit, deeds
from access.deeds import Deed
from config import live, option
from config.sections import Config
from memory.command import MemoryCommand
from tasks import by_hand, trigger_lines, trigger_pages, wake
from tasks.triggers import Firing


class Command(MemoryCommand):
    """Two lines for each trigger, or a task of one of them."""

    help = "List the triggers of the YAML and what came of each, or fire one by hand."

    def add_arguments(self, parser: CommandParser) -> None:
        super().add_arguments(parser)
        parser.add_argument("--json", action="store_true", help="Print JSON.")
        commands = parser.add_subparsers(dest="what", metavar="COMMAND")
        fire: ArgumentParser = commands.add_parser(
            "fire",
            help="Have one run now, also where it is off.",
            description="Have a trigger run now, also where it is off.",
            allow_abbrev=False,
        )
        option.add_to(fire)
        fire.add_argument("name", metavar="NAME", help="The trigger's name.")
        fire.add_argument(
            "--payload",
            metavar="JSON",
            default="{}",
            help="What a webhook is to have been sent.",
        )

    def handle(self, **options: Any) -> None:
        config = live.read(self.config_path(options))
        if options["what"] == "fire":
            self._fire(config, options["name"], options["payload"])
        else:
            self._list(config, is_json=options["json"])

    def _list(self, config: Config, *, is_json: bool) -> None:
        pages = trigger_pages.every(config, datetime.now(UTC))
        if is_json:
            self.write_json([trigger_lines.as_json(page) for page in pages])
            return
        for page in pages:
            for line in trigger_lines.lines(page):
                self.stdout.write(line)
        if not pages:
            self.stdout.write("there are no triggers in the YAML")

    def _fire(self, config: Config, name: str, payload: str) -> None:
        try:
            said = orjson.loads(payload)
        except orjson.JSONDecodeError as exc:
            raise CommandError(f"--payload is not JSON: {exc}") from exc
        deed = partial(_deed, name)
        firing = audit.recorded(
            deed, by_hand.fire, by_hand.occasion(config, name, said)
        )
        _wake()
        self.stdout.write(str(firing.task_id))


def _deed(name: str, firing: Firing) -> Deed:
    by, details = deeds.at_the_terminal(), {"task": str(firing.task_id)}
    return Deed("trigger.fire", by, name, details)


def _wake() -> None:
    """Have a worker look now; without the broker it does within seconds."""
    import_string(settings.COULISSE_CELERY_APP)  # Commands have none of themselves.
    wake.soon()
    wake.flush()
