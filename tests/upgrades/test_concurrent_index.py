"""Indexes that are built beside writers."""

import pytest
from django.apps import apps
from django.db import connection, models
from django.db.migrations.state import ProjectState

from database.migration_operations import AddIndexConcurrently
from telemetry.models import Turn

pytestmark = [pytest.mark.database, pytest.mark.usefixtures("database")]
INDEX = models.Index(fields=["outcome"], name="a_concurrent_index")


def index_names() -> set[str]:
    with connection.cursor() as cursor:
        table = Turn._meta.db_table
        return set(connection.introspection.get_constraints(cursor, table))


def test_index_is_built_again_and_removed():
    operation = AddIndexConcurrently("turn", INDEX)
    before = ProjectState.from_apps(apps)
    after = before.clone()
    operation.state_forwards("telemetry", after)
    with connection.schema_editor(atomic=False) as editor:
        operation.database_forwards("telemetry", editor, before, after)
        assert INDEX.name in index_names()
        if connection.vendor == "postgresql":
            # As after a build that was interrupted.
            operation.database_forwards("telemetry", editor, before, after)
        operation.database_backwards("telemetry", editor, after, before)
    assert INDEX.name not in index_names()
