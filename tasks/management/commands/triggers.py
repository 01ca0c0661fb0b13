"""`manage.py triggers`: what starts agents, what came of it, and firing one by hand."""

from argparse import ArgumentParser
from datetime import UTC, datetime
from typing import Any

import orjson
from django.conf import settings
from django.core.management.base import CommandError, CommandParser
from django.db import transaction
from django.utils.module_loading import import_string

from access import audit, deeds
from access.deeds import Deed
from config import loader, option
from config.sections import Config
from config.spelling import did_you_mean
from memory.command import MemoryCommand
from tasks import trigger_lines, trigger_pages, triggers, wake, webhooks
from tasks.triggers import Firing, Occasion
from tasks.triggers_config import TRIGGERS, AnyTrigger, WebhookTrigger
from tasks.webhooks import Delivery


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
        config = loader.load(self.config_path(options))
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
        occasion = _occasion(config, _named(config, name), payload)
        firing = _fired(occasion)
        if firing.task_id is None:
            raise CommandError(f"trigger '{name}' has a run that is not over")
        _wake()
        self.stdout.write(str(firing.task_id))


def _wake() -> None:
    """Have a worker look now; without the broker it does within seconds."""
    import_string(settings.COULISSE_CELERY_APP)  # Commands have none of themselves.
    wake.soon()
    wake.flush()


def _named(config: Config, name: str) -> AnyTrigger:
    known = {trigger.name: trigger for trigger in config.get(TRIGGERS)}
    if name not in known:
        raise CommandError(f"no trigger is called '{name}'{did_you_mean(name, known)}")
    return known[name]


def _occasion(config: Config, trigger: AnyTrigger, payload: str) -> Occasion:
    if not isinstance(trigger, WebhookTrigger):
        return triggers.occasion(config, trigger)
    try:
        said = orjson.loads(payload)
    except orjson.JSONDecodeError as exc:
        raise CommandError(f"--payload is not JSON: {exc}") from exc
    return webhooks.occasion(config, trigger, Delivery(said, id=None))


def _fired(occasion: Occasion) -> Firing:
    by, name = deeds.at_the_terminal(), occasion.trigger.name
    with transaction.atomic():
        firing = triggers.fire(occasion)
        if firing.task_id is not None:
            audit.write(Deed("trigger.fire", by, name, {"task": str(firing.task_id)}))
    return firing
