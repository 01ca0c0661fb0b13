"""The rule of docs/architecture.md, "A migration", as a function."""

from collections.abc import Iterator

from django.db.migrations import Migration
from django.db.migrations import operations as ops
from django.db.migrations.operations.base import Operation
from django.db.migrations.state import ProjectState
from django.db.models import Field
from django.db.models.fields import NOT_PROVIDED

from database.migration_operations import AddIndexConcurrently

BIG_TABLES = frozenset(
    {
        "access.auditentry",
        "access.usagecounter",
        "files.file",
        "judges.feedback",
        "judges.judgetask",
        "judges.score",
        "memory.fact",
        "memory.factchange",
        "memory.factmessage",
        "memory.owner",
        "memory.passage",
        "memory.session",
        "memory.storedcompletion",
        "memory.storedmessage",
        "memory.summary",
        "memory.thread",
        "safety.incident",
        "tasks.callreceipt",
        "tasks.task",
        "telemetry.expense",
        "telemetry.modelcall",
        "telemetry.toolcall",
        "telemetry.turn",
    }
)
"""Those that grow with users, turns or tasks."""

Removal = (
    ops.RemoveField
    | ops.DeleteModel
    | ops.RenameField
    | ops.RenameModel
    | ops.AlterModelTable
    | ops.AddConstraint
    | ops.AlterUniqueTogether
)
OwnSql = ops.RunPython | ops.RunSQL | ops.SeparateDatabaseAndState


def problems(
    migration: Migration, before: ProjectState, *, may_remove: bool = False
) -> Iterator[str]:
    """Yield why the last release could not run beside or after a migration.

    `before` is the state before it, of which a copy is changed. With `may_remove`, no
    release uses what the migration removes.
    """
    state = before.clone()
    big = BIG_TABLES & {".".join(key) for key in before.models}
    for operation in migration.operations:
        label = migration.app_label
        name = getattr(operation, "model_name", getattr(operation, "name", ""))
        table = f"{label}.{name}".lower()
        if (label, str(name).lower()) in before.models or isinstance(operation, OwnSql):
            found = _problem(operation, label, state, may_remove=may_remove)
            if found is None and table in big:
                found = _index_problem(operation, migration)
            if found:
                yield f"{migration}: {operation.describe()}: {found}"
        operation.state_forwards(label, state)


def _problem(
    operation: Operation, label: str, state: ProjectState, *, may_remove: bool
) -> str | None:
    match operation:
        case ops.AddField() if not _may_be_absent(operation.field):
            return "needs db_default or null: the last release does not write it"
        case ops.AlterField() if not may_remove:
            model = state.models[label, operation.model_name_lower]
            return _change_problem(model.fields[operation.name], operation.field)
        case _ if isinstance(operation, Removal) and not may_remove:
            return "the last release still uses it: list it in AFTER_RELEASE later"
        case ops.SeparateDatabaseAndState() if not operation.database_operations:
            return None
        case _ if isinstance(operation, OwnSql) and not may_remove:
            return "rows are moved in batches by a job; list it if it is quick"
    return None


def _may_be_absent(field: Field) -> bool:
    return field.many_to_many or field.null or field.db_default is not NOT_PROVIDED


def _change_problem(old: Field, new: Field) -> str | None:
    if old.null and not new.null:
        return "NOT NULL: the last release may write null"
    if old.get_internal_type() != new.get_internal_type():
        return "another type: it rewrites the table, and the last release has the old"
    if (new.max_length or 0) < (old.max_length or 0):
        return "shorter: the last release may write longer values"
    if old.db_default is not NOT_PROVIDED and not _may_be_absent(new):
        return "without its db_default: the last release may not write it"
    return None


def _index_problem(operation: Operation, migration: Migration) -> str | None:
    match operation:
        case AddIndexConcurrently() if (
            migration.atomic or len(migration.operations) > 1
        ):
            return "needs a migration of its own with atomic = False"
        case ops.AddIndex() if not isinstance(operation, AddIndexConcurrently):
            return "needs AddIndexConcurrently of database/migration_operations.py"
        case ops.AddField() if operation.field.db_index or operation.field.unique:
            return "builds an index under a lock: db_index=False, and add it after"
    return None
