"""`coulisse tasks`: lists, counts, cancels and retries background tasks."""

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
from core.errors import public_text
from core.ids import parse_uuid
from core.text.sanitization import escape_and_truncate_line
from tasks.models import Task
from tasks.queue import task_kinds
from tasks.schemas import ListedTask, TaskObject

DEFAULT_LIMIT = 20
MAX_LINE_LENGTH = 60
"""Maximum characters of a prompt or an error in a line."""


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
                self._show(options)
            case "cancel":
                self._cancel(options)
            case "retry":
                self._retry(options)
            case "counts":
                self._count(options)

    def _list(self, options: dict[str, Any]) -> None:
        found = Task.objects.of_kind(options["kind"])
        if (user := options["user"]) is not None:
            user_id = identity.derive_user_id(identity.check_identifier(user))
            found = found.of_user(user_id)
        if options["state"] is not None:
            found = found.in_states([options["state"]])
        if options["agent"] is not None:
            found = found.filter(agent=options["agent"])
        tasks, has_more = found.page(options["limit"])
        if options["json"]:
            self.write_json([_serialize(ListedTask, task) for task in tasks])
            return
        for task in tasks:
            self.stdout.write(_task_line(task))
        if not tasks:
            self.write_note("no matching tasks")
        elif has_more:
            self.write_note("there are more tasks; raise --limit to list them")

    def _show(self, options: dict[str, Any]) -> None:
        data = _serialize(TaskObject, _find(options["id"]))
        if options["json"]:
            self.write_json(data)
            return
        for name, value in data.items():
            if value not in (None, "") and name != "object":
                self.stdout.write(f"{name.replace('_', ' ')}: {value}")

    def _cancel(self, options: dict[str, Any]) -> None:
        task = _find(options["id"])
        event = AuditEvent("task.cancel", audit_events.terminal_actor(), str(task.pk))
        audit_log.run_recorded(lambda is_new: event if is_new else None, task.cancel)
        task = _find(options["id"])
        if options["json"]:
            self.write_json(_serialize(TaskObject, task))
        else:
            state = "stopping" if task.state == Task.State.RUNNING else task.state
            self.stdout.write(f"task {task.pk} is {state}")

    def _retry(self, options: dict[str, Any]) -> None:
        task_ids = [_id(text) for text in options["ids"]] or _failed_task_ids(
            options["kind"]
        )
        with transaction.atomic():
            count = Task.objects.filter(pk__in=task_ids).requeue()
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
        counts = Task.objects.count_by_kind_and_state()
        errors = Task.objects.count_errors()
        if options["json"]:
            self.write_json(
                {"counts": _counts_by_kind(counts), "errors": _error_counts(errors)}
            )
            return
        for kind, states in _counts_by_kind(counts).items():
            listed = ", ".join(f"{count} {state}" for state, count in states.items())
            self.stdout.write(f"{kind}: {listed}")
        for kind, error, count in errors:
            line = escape_and_truncate_line(error, MAX_LINE_LENGTH)
            self.stdout.write(f"    {count} {kind}: {line}")
        if not counts:
            self.write_note("there are no tasks")


def _declare_list(parser: ArgumentParser) -> None:
    parser.add_argument("--user", help="Only tasks of this user.")
    parser.add_argument("--agent", help="Only tasks of this agent.")
    parser.add_argument(
        "--state", choices=Task.State.values, help="Only tasks in this state."
    )
    parser.add_argument(
        "--kind", choices=task_kinds.names(), help="Only tasks of this kind."
    )
    config_option.add_limit(parser, "tasks", default=DEFAULT_LIMIT)


def _declare_one(parser: ArgumentParser) -> None:
    parser.add_argument("id", metavar="ID", help="The task's UUID, from `tasks list`.")


def _declare_retry(parser: ArgumentParser) -> None:
    group = parser.add_mutually_exclusive_group(required=True)
    group.add_argument(
        "ids", metavar="ID", nargs="*", default=[], help="UUIDs of the tasks."
    )
    group.add_argument(
        "--kind", choices=task_kinds.names(), help="All errored tasks of this kind."
    )


def _id(text: str) -> uuid.UUID:
    task_id = parse_uuid(text)
    if task_id is None:
        raise CommandError(f"'{text}' is not a task id: pass its UUID")
    return task_id


def _find(text: str) -> Task:
    return Task.objects.get_with_cost(_id(text))


def _serialize(schema: type[TaskObject], task: Task) -> dict[str, Any]:
    return schema.model_validate(task).model_dump(mode="json")


def _task_line(task: Task) -> str:
    return "  ".join(
        (
            str(task.pk),
            f"{task.created_at:%Y-%m-%d %H:%M}",
            f"{task.state:<9}",
            f"{task.kind:<6}",
            task.agent,
            escape_and_truncate_line(
                public_text(task.error) or task.prompt, MAX_LINE_LENGTH
            ),
        )
    ).rstrip()


def _failed_task_ids(kind: str | None) -> list[uuid.UUID]:
    return list(Task.objects.errored().filter(kind=kind).values_list("pk", flat=True))


def _counts_by_kind(rows: list[tuple[str, str, int]]) -> dict[str, dict[str, int]]:
    counts: dict[str, dict[str, int]] = {}
    for kind, state, count in rows:
        counts.setdefault(kind, {})[state] = count
    return counts


def _error_counts(rows: list[tuple[str, str, int]]) -> list[dict[str, Any]]:
    return [
        {"kind": kind, "error": error, "count": count} for kind, error, count in rows
    ]
