"""`manage.py triggers`: lists triggers and their results, and runs one by hand."""

from argparse import ArgumentParser
from datetime import UTC, datetime
from functools import partial
from typing import Any

import orjson
from django.conf import settings
from django.core.management.base import CommandError, CommandParser
from django.utils.module_loading import import_string

from access.audit import audit_events, audit_log
from access.audit.audit_events import AuditEvent
from config import live
from config.management import config_option
from config.management.database_command import DatabaseCommand
from config.sections import Config
from tasks.queue import worker_notifier
from triggers.reports import terminal, trigger_status
from triggers.runs import manual_runs
from triggers.runs.trigger_runs import TriggerRun


class Command(DatabaseCommand):
    """Prints two lines for each trigger, or the task of a manual run."""

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
        config_option.add_option(fire)
        fire.add_argument("name", metavar="NAME", help="The trigger's name.")
        fire.add_argument(
            "--payload",
            metavar="JSON",
            default="{}",
            help="What a webhook is to have been sent.",
        )

    def handle(self, **options: Any) -> None:
        config = live.read_effective(self.config_path(options))
        if options["what"] == "fire":
            self._fire(config, options["name"], options["payload"])
        else:
            self._list(config, is_json=options["json"])

    def _list(self, config: Config, *, is_json: bool) -> None:
        pages = trigger_status.list_triggers(config, datetime.now(UTC))
        if is_json:
            self.write_json([terminal.as_json(page) for page in pages])
            return
        for page in pages:
            for line in terminal.describe_trigger(page):
                self.stdout.write(line)
        if not pages:
            self.stdout.write("there are no triggers in the YAML")

    def _fire(self, config: Config, name: str, payload: str) -> None:
        try:
            said = orjson.loads(payload)
        except orjson.JSONDecodeError as exc:
            raise CommandError(f"--payload is not JSON: {exc}") from exc
        deed = partial(_audit_event, name)
        firing = audit_log.run_recorded(
            deed, manual_runs.run_trigger, manual_runs.build_event(config, name, said)
        )
        _notify_worker()
        self.stdout.write(str(firing.task_id))


def _audit_event(name: str, firing: TriggerRun) -> AuditEvent:
    by, details = audit_events.terminal_actor(), {"task": str(firing.task_id)}
    return AuditEvent("trigger.fire", by, name, details)


def _notify_worker() -> None:
    """Notify a worker; without the broker it polls within seconds."""
    import_string(settings.COULISSE_CELERY_APP)  # Commands do not load it themselves.
    worker_notifier.notify()
    worker_notifier.flush()
