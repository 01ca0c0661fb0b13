"""`coulisse triggers`: lists triggers and their results, and runs one manually."""

from argparse import ArgumentParser
from collections.abc import Iterator
from datetime import datetime
from typing import Any

import orjson
from django.core.management.base import CommandError, CommandParser

from access.audit import audit_events
from config import live
from config.management import config_option
from config.management.database_command import DatabaseCommand
from config.sections import Config
from tasks.queue import publisher
from triggers import trigger_list
from triggers.config import TRIGGERS
from triggers.runs import manual_runs
from triggers.schemas import CountedTrigger


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
        configured = config.get(TRIGGERS)
        triggers = trigger_list.count_runs(configured)
        if is_json:
            self.write_json(
                [each.model_dump(mode="json", exclude_unset=True) for each in triggers]
            )
            return
        for trigger in triggers:
            self.stdout.write("  ".join(_describe_definition(trigger)))
            self.stdout.write("    " + "  ".join(_describe_runs(trigger)))
        if not triggers:
            self.stdout.write("there are no triggers in the YAML")

    def _run(self, config: Config, name: str, payload: str) -> None:
        try:
            value = orjson.loads(payload)
        except orjson.JSONDecodeError as exc:
            raise CommandError(f"--payload is not JSON: {exc}") from exc
        actor = audit_events.terminal_actor()
        run = manual_runs.run_trigger(config, name, value, actor)
        publisher.flush()
        self.stdout.write(str(run.task_id))


def _describe_definition(trigger: CountedTrigger) -> Iterator[str]:
    yield from (trigger.name, trigger.type)
    if trigger.type == "cron":
        yield f"{trigger.schedule} {trigger.time_zone}"
    elif trigger.path:
        yield trigger.path
        if not trigger.has_secret:
            yield "no secret"
    yield f"agent {trigger.agent}"
    if not trigger.enabled:
        yield "(off)"
    if trigger.paused:
        yield "(paused)"


def _describe_runs(trigger: CountedTrigger) -> Iterator[str]:
    if trigger.next_at is not None:
        yield f"next {_format_time(trigger.next_at)}"
    last = trigger.last_run_at
    yield "never run" if last is None else f"last {_format_time(last)}"
    yield f"runs {trigger.run_count}"
    yield from (f"{state} {count}" for state, count in trigger.runs.items() if count)
    for name in ("skipped", "repeated"):
        if count := getattr(trigger, name):
            yield f"{name} {count}"
    if trigger.missed:
        last = trigger.missed_at
        at = "" if last is None else f", last {_format_time(last)}"
        yield f"missed {trigger.missed}{at}"


def _format_time(instant: datetime) -> str:
    return f"{instant:%Y-%m-%d %H:%M:%S}"
