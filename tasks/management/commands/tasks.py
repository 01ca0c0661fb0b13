"""`manage.py tasks`: lists, counts, cancels and retries background tasks."""

import uuid
from argparse import ArgumentParser
from typing import Any

from django.core.management.base import CommandError, CommandParser
from django.db import transaction

from access.audit import audit_events, audit_log
from access.audit.audit_events import AuditEvent
from access.users import identity
from config.management import config_option
from config.management.database_command import DatabaseCommand
from tasks.models import Task
from tasks.queue import lifecycle, task_kinds
from tasks.reports import operator_view, task_ids, task_queries, terminal

DEFAULT_LIMIT = 20


class Command(DatabaseCommand):
    """Prints a line for each task, or all details of one."""

    help = "List, count, show, cancel and replay the work done in the background."

    def add_arguments(self, parser: CommandParser) -> None:
        super().add_arguments(parser)
        add_plain = config_option.add_subcommands(parser)

        def add(name: str, what: str) -> ArgumentParser:
            made = add_plain(name, what)
            made.add_argument("--json", action="store_true", help="Print JSON.")
            return made

        _declare_list(add("list", "List tasks, the newest first."))
        _declare_one(add("show", "Show one with its prompt and its result."))
        _declare_one(add("cancel", "End one: at once, or soon where it runs."))
        _declare_retry(add("retry", "Put back what failed or was cancelled."))
        add("counts", "Count the tasks of each kind, and say why they failed.")

    def handle(self, **options: Any) -> None:
        match options["what"]:
            case "list":
                self._list(options)
            case "show":
                self._show(task_queries.get_task(_id(options["id"])), options)
            case "cancel":
                self._cancel(_id(options["id"]), options)
            case "retry":
                self._retry(options)
            case "counts":
                self._count(options)

    def _list(self, options: dict[str, Any]) -> None:
        if options["limit"] < 1:
            raise CommandError("--limit must be at least 1")
        user = options["user"]
        found, has_more = task_queries.page_tasks(
            user_id=None
            if user is None
            else identity.derive_user_id(identity.check_identifier(user)),
            is_all=True,
            states=[] if options["state"] is None else [options["state"]],
            agent=options["agent"],
            kind=options["kind"],
            limit=options["limit"],
        )
        told = task_queries.serialize_tasks(found)
        if options["json"]:
            self.write_json(told)
            return
        for task in told:
            self.stdout.write(terminal.task_line(task))
        if not told:
            self.say("there is no such task")
        elif has_more:
            self.say("there are more: --limit says how many are listed")

    def _show(self, told: dict[str, Any], options: dict[str, Any]) -> None:
        if options["json"]:
            self.write_json(told)
            return
        for line in terminal.task_detail(told):
            self.stdout.write(line)

    def _cancel(self, task_id: uuid.UUID, options: dict[str, Any]) -> None:
        task_queries.get_task(task_id)
        deed = AuditEvent("task.cancel", audit_events.terminal_actor(), str(task_id))
        audit_log.run_recorded(
            lambda is_new: deed if is_new else None, operator_view.cancel_task, task_id
        )
        told = task_queries.get_task(task_id)
        if options["json"]:
            self.write_json(told)
        elif told["state"] == "running":
            self.stdout.write(f"task {task_id} ends in a moment")
        else:
            self.stdout.write(f"task {task_id} is {told['state']}")

    def _retry(self, options: dict[str, Any]) -> None:
        wanted = [_id(text) for text in options["ids"]] or _failed_task_ids(
            options["kind"]
        )
        with transaction.atomic():
            count = lifecycle.requeue(wanted)
            if count:
                details = {"put_back": count}
                target = options["kind"] or ",".join(map(str, wanted))
                by = audit_events.terminal_actor()
                audit_log.write(AuditEvent("task.retry", by, target[:255], details))
        if options["ids"] and not count:
            raise CommandError("none of these has failed or was cancelled")
        if options["json"]:
            self.write_json({"put_back": count})
        else:
            self.stdout.write(f"{count} put back; a worker looks every few seconds")

    def _count(self, options: dict[str, Any]) -> None:
        counted, why = (
            task_queries.count_by_kind_and_state(),
            task_queries.count_errors(),
        )
        if options["json"]:
            self.write_json(
                {"counts": _counts_by_kind(counted), "errors": _error_counts(why)}
            )
            return
        for line in [*terminal.count_lines(counted), *terminal.error_lines(why)]:
            self.stdout.write(line)
        if not counted:
            self.say("there is no task")


def _declare_list(parser: ArgumentParser) -> None:
    """Declare the filters of the list."""
    parser.add_argument("--user", help="Only this user's.")
    parser.add_argument("--agent", help="Only this agent's.")
    parser.add_argument("--state", choices=Task.State.values, help="Only these.")
    parser.add_argument("--kind", choices=task_kinds.names(), help="Only these.")
    parser.add_argument(
        "--limit",
        type=int,
        default=DEFAULT_LIMIT,
        help=f"How many; {DEFAULT_LIMIT} by default.",
    )


def _declare_one(parser: ArgumentParser) -> None:
    """Declare the argument that names the task."""
    parser.add_argument("id", metavar="ID", help="Its UUID, as `tasks list` shows it.")


def _declare_retry(parser: ArgumentParser) -> None:
    """Declare the arguments that select the tasks to retry."""
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument("ids", metavar="ID", nargs="*", default=[], help="UUIDs.")
    which.add_argument(
        "--kind", choices=task_kinds.names(), help="All of this kind that are errored."
    )


def _id(text: str) -> uuid.UUID:
    task_id = task_ids.parse_task_id(text)
    if task_id is None:
        raise CommandError(f"'{text}' is no id of a task: give its UUID")
    return task_id


def _failed_task_ids(kind: str | None) -> list[uuid.UUID]:
    failed = Task.objects.filter(state=Task.State.ERRORED, kind=kind)
    return list(failed.values_list("pk", flat=True))


def _counts_by_kind(rows: list[tuple[str, str, int]]) -> dict[str, dict[str, int]]:
    counted: dict[str, dict[str, int]] = {}
    for kind, state, count in rows:
        counted.setdefault(kind, {})[state] = count
    return counted


def _error_counts(rows: list[tuple[str, str, int]]) -> list[dict[str, Any]]:
    return [
        {"kind": kind, "error": error, "count": count} for kind, error, count in rows
    ]
