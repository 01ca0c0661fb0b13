"""Migrations that the last release survives: docs/architecture.md, "A migration"."""

import pytest
from django.apps import apps
from django.conf import settings
from django.db import migrations, models
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.state import ModelState, ProjectState

from database.migration_operations import AddIndexConcurrently
from tests.upgrades.migration_rule import BIG_TABLES, problems

AFTER_RELEASE: dict[str, str] = {}
"""Migrations that remove something or have SQL of their own, as "app.0002_name", and
why the last release runs without it, such as "not read or written since 0.2.0"."""

INDEX = models.Index(fields=["added"], name="a_name")


def test_big_tables_exist():
    assert {model._meta.label_lower for model in apps.get_models()} >= BIG_TABLES


def test_last_release_runs_on_the_new_schema():
    loader = MigrationLoader(None)
    own = {each.label for each in apps.get_app_configs() if _is_own(each.path)}
    changes = [
        (key, migration)
        for key, migration in loader.disk_migrations.items()
        if key[0] in own and not key[1].startswith("0001_")
    ]
    found = [
        problem
        for (app, name), migration in changes
        for problem in problems(
            migration,
            loader.project_state((app, name), at_end=False),
            may_remove=f"{app}.{name}" in AFTER_RELEASE,
        )
    ]
    assert found == []
    assert AFTER_RELEASE.keys() <= {".".join(key) for key, _ in changes}


def _is_own(path: str) -> bool:
    return path.startswith(str(settings.BASE_DIR)) and ".venv" not in path


def find(*operations: object, atomic: bool = True, **options: bool) -> list[str]:
    """Return the problems of operations on the table of turns, which is big."""
    state = ProjectState()
    fields = {
        "id": models.BigAutoField(primary_key=True),
        "old": models.IntegerField(null=True),
        "kept": models.IntegerField(db_default=1),
        "text": models.CharField(max_length=9),
    }
    state.add_model(ModelState("telemetry", "Turn", list(fields.items())))
    migration = migrations.Migration("0002_change", "telemetry")
    migration.operations, migration.atomic = list(operations), atomic
    return [each.rpartition(": ")[2] for each in problems(migration, state, **options)]


def add(field: models.Field) -> object:
    return migrations.AddField("turn", "added", field)


def alter(name: str, field: models.Field) -> object:
    return migrations.AlterField("turn", name, field)


@pytest.mark.parametrize(
    "operation",
    [
        add(models.IntegerField()),
        add(models.IntegerField(default=1)),
        add(models.IntegerField(null=True, db_index=True)),
        add(models.ForeignKey("telemetry.Turn", models.CASCADE, null=True)),
        alter("old", models.IntegerField()),
        alter("old", models.TextField(null=True)),
        alter("kept", models.IntegerField()),
        alter("text", models.CharField(max_length=8)),
        migrations.RemoveField("turn", "old"),
        migrations.DeleteModel("Turn"),
        migrations.RenameField("turn", "old", "new"),
        migrations.RenameModel("Turn", "Round"),
        migrations.AlterModelTable("turn", "round"),
        migrations.AddConstraint(
            "turn", models.UniqueConstraint(fields=["old"], name="a_name")
        ),
        migrations.AddIndex("turn", INDEX),
        migrations.RunSQL("UPDATE telemetry_turn SET old = 1"),
        AddIndexConcurrently("turn", INDEX),
    ],
    ids=lambda operation: operation.describe(),
)
def test_operations_that_stop_the_last_release(operation):
    assert len(find(operation)) == 1


@pytest.mark.parametrize(
    "operation",
    [
        add(models.IntegerField(null=True)),
        add(models.IntegerField(db_default=1)),
        add(
            models.ForeignKey(
                "telemetry.Turn", models.CASCADE, null=True, db_index=False
            )
        ),
        alter("old", models.IntegerField(null=True, verbose_name="older")),
        alter("text", models.CharField(max_length=10)),
        migrations.CreateModel(
            "Other", [("id", models.BigAutoField(primary_key=True))]
        ),
    ],
    ids=lambda operation: operation.describe(),
)
def test_operations_that_the_last_release_survives(operation):
    assert find(operation) == []


def test_new_table_has_no_rule():
    fields = [("id", models.BigAutoField(primary_key=True))]
    create = migrations.CreateModel("Other", fields)
    column = migrations.AddField("other", "count", models.IntegerField())
    assert find(create, column, migrations.AddIndex("other", INDEX)) == []


def test_index_of_its_own_migration_is_built_beside_writers():
    assert find(AddIndexConcurrently("turn", INDEX), atomic=False) == []


def test_removal_from_the_code_alone_leaves_the_column():
    remove = migrations.RemoveField("turn", "old")
    state_only = migrations.SeparateDatabaseAndState(state_operations=[remove])
    assert find(state_only) == []
    assert len(find(migrations.SeparateDatabaseAndState([remove]))) == 1


def test_listed_migration_may_remove():
    assert find(migrations.RemoveField("turn", "old"), may_remove=True) == []
