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
from tasks.reports import operator_view, task_queries, terminal
from tasks.reports.task_ids import parse_task_id

DEFAULT_LIMIT = 20


class Command(DatabaseCommand):
    """Prints a line for each task, or all details of one."""

    help = "List, count, show, cancel and retry background tasks."

    def add_arguments(self, parser: CommandParser) -> None:
        super().add_arguments(parser)
        add_plain = config_option.add_subcommands(parser)

        def add(name: str, help_text: str) -> ArgumentParser:
            subparser = add_plain(name, help_text)
            subparser.add_argument("--json", action="store_true", help="Print JSON.")
            return subparser

        _declare_list(add("list", "List tasks, newest first."))
        _declare_one(add("show", "Show a task with its prompt and its result."))
        _declare_one(add("cancel", "Cancel a task; a running one stops soon."))
        _declare_retry(add("retry", "Requeue failed or cancelled tasks."))
        add("counts", "Count the tasks of each kind, and their errors.")

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
        rows, has_more = task_queries.page_tasks(
            user_id=None
            if user is None
            else identity.derive_user_id(identity.check_identifier(user)),
            is_all=True,
            states=[] if options["state"] is None else [options["state"]],
            agent=options["agent"],
            kind=options["kind"],
            limit=options["limit"],
        )
        tasks = task_queries.serialize_tasks(rows)
        if options["json"]:
            self.write_json(tasks)
            return
        for task in tasks:
            self.stdout.write(terminal.task_line(task))
        if not tasks:
            self.write_note("no matching tasks")
        elif has_more:
            self.write_note("there are more tasks; raise --limit to list them")

    def _show(self, task: dict[str, Any], options: dict[str, Any]) -> None:
        if options["json"]:
            self.write_json(task)
            return
        for line in terminal.task_detail(task):
            self.stdout.write(line)

    def _cancel(self, task_id: uuid.UUID, options: dict[str, Any]) -> None:
        task_queries.get_task(task_id)
        event = AuditEvent("task.cancel", audit_events.terminal_actor(), str(task_id))
        audit_log.run_recorded(
            lambda is_new: event if is_new else None, operator_view.cancel_task, task_id
        )
        task = task_queries.get_task(task_id)
        if options["json"]:
            self.write_json(task)
        elif task["state"] == "running":
            self.stdout.write(f"task {task_id} is stopping")
        else:
            self.stdout.write(f"task {task_id} is {task['state']}")

    def _retry(self, options: dict[str, Any]) -> None:
        task_ids = [_id(text) for text in options["ids"]] or _failed_task_ids(
            options["kind"]
        )
        with transaction.atomic():
            count = lifecycle.requeue(task_ids)
            if count:
                target = options["kind"] or ",".join(map(str, task_ids))
                actor = audit_events.terminal_actor()
                audit_log.write(
                    AuditEvent("task.retry", actor, target[:255], {"requeued": count})
                )
        if options["ids"] and not count:
            raise CommandError("none of these tasks has failed or was cancelled")
        if options["json"]:
            self.write_json({"requeued": count})
        else:
            self.stdout.write(f"requeued {count}; workers poll every few seconds")

    def _count(self, options: dict[str, Any]) -> None:
        counts = task_queries.count_by_kind_and_state()
        errors = task_queries.count_errors()
        if options["json"]:
            self.write_json(
                {"counts": _counts_by_kind(counts), "errors": _error_counts(errors)}
            )
            return
        for line in [*terminal.count_lines(counts), *terminal.error_lines(errors)]:
            self.stdout.write(line)
        if not counts:
            self.write_note("there are no tasks")


def _declare_list(parser: ArgumentParser) -> None:
    """Declare the filters of the list."""
    parser.add_argument("--user", help="Only tasks of this user.")
    parser.add_argument("--agent", help="Only tasks of this agent.")
    parser.add_argument(
        "--state", choices=Task.State.values, help="Only tasks in this state."
    )
    parser.add_argument(
        "--kind", choices=task_kinds.names(), help="Only tasks of this kind."
    )
    parser.add_argument(
        "--limit",
        type=int,
        default=DEFAULT_LIMIT,
        help=f"Maximum number of tasks (default: {DEFAULT_LIMIT}).",
    )


def _declare_one(parser: ArgumentParser) -> None:
    """Declare the argument that names the task."""
    parser.add_argument("id", metavar="ID", help="The task's UUID, from `tasks list`.")


def _declare_retry(parser: ArgumentParser) -> None:
    """Declare the arguments that select the tasks to retry."""
    group = parser.add_mutually_exclusive_group(required=True)
    group.add_argument(
        "ids", metavar="ID", nargs="*", default=[], help="UUIDs of the tasks."
    )
    group.add_argument(
        "--kind", choices=task_kinds.names(), help="All errored tasks of this kind."
    )


def _id(text: str) -> uuid.UUID:
    task_id = parse_task_id(text)
    if task_id is None:
        raise CommandError(f"'{text}' is not a task id: pass its UUID")
    return task_id


def _failed_task_ids(kind: str | None) -> list[uuid.UUID]:
    failed = Task.objects.filter(state=Task.State.ERRORED, kind=kind)
    return list(failed.values_list("pk", flat=True))


def _counts_by_kind(rows: list[tuple[str, str, int]]) -> dict[str, dict[str, int]]:
    counts: dict[str, dict[str, int]] = {}
    for kind, state, count in rows:
        counts.setdefault(kind, {})[state] = count
    return counts


def _error_counts(rows: list[tuple[str, str, int]]) -> list[dict[str, Any]]:
    return [
        {"kind": kind, "error": error, "count": count} for kind, error, count in rows
    ]
