"""`manage.py triggers`: lists triggers and their results, and runs one manually."""

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

    help = "List the triggers of the YAML and their results, or run one."

    def add_arguments(self, parser: CommandParser) -> None:
        super().add_arguments(parser)
        parser.add_argument("--json", action="store_true", help="Print JSON.")
        commands = parser.add_subparsers(dest="what", metavar="COMMAND")
        run: ArgumentParser = commands.add_parser(
            "run",
            help="Run a trigger now, even a disabled one.",
            description="Run a trigger now, even a disabled one.",
            allow_abbrev=False,
        )
        config_option.add_option(run)
        run.add_argument("name", metavar="NAME", help="The trigger's name.")
        run.add_argument(
            "--payload",
            metavar="JSON",
            default="{}",
            help="The payload of a webhook.",
        )

    def handle(self, **options: Any) -> None:
        config = live.read_effective(self.config_path(options))
        if options["what"] == "run":
            self._run(config, options["name"], options["payload"])
        else:
            self._list(config, is_json=options["json"])

    def _list(self, config: Config, *, is_json: bool) -> None:
        statuses = trigger_status.list_triggers(config, datetime.now(UTC))
        if is_json:
            self.write_json([terminal.as_json(status) for status in statuses])
            return
        for status in statuses:
            for line in terminal.describe_trigger(status):
                self.stdout.write(line)
        if not statuses:
            self.stdout.write("there are no triggers in the YAML")

    def _run(self, config: Config, name: str, payload: str) -> None:
        try:
            value = orjson.loads(payload)
        except orjson.JSONDecodeError as exc:
            raise CommandError(f"--payload is not JSON: {exc}") from exc
        run = audit_log.run_recorded(
            partial(_audit_event, name),
            manual_runs.run_trigger,
            manual_runs.build_event(config, name, value),
        )
        _notify_worker()
        self.stdout.write(str(run.task_id))


def _audit_event(name: str, run: TriggerRun) -> AuditEvent:
    actor, details = audit_events.terminal_actor(), {"task": str(run.task_id)}
    return AuditEvent("trigger.run", actor, name, details)


def _notify_worker() -> None:
    """Notify a worker; without the broker it polls within seconds."""
    import_string(settings.COULISSE_CELERY_APP)  # Commands do not load it otherwise.
    worker_notifier.notify()
    worker_notifier.flush()
