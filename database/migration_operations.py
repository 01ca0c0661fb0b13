"""Operations of migrations that do not stop a server that is in use."""

from typing import Any

from django.contrib.postgres import operations
from django.db.migrations.operations.models import AddIndex


class AddIndexConcurrently(operations.AddIndexConcurrently):
    """Adds an index to a big table while others write to it; plain on SQLite.

    Its migration must have `atomic = False` and no other operation: it is repeated if
    it is interrupted.
    """

    def database_forwards(
        self, app_label: str, schema_editor: Any, from_state: Any, to_state: Any
    ) -> None:
        arguments = (app_label, schema_editor, from_state, to_state)
        if schema_editor.connection.vendor != "postgresql":
            AddIndex.database_forwards(self, *arguments)
            return
        model = to_state.apps.get_model(app_label, self.model_name)
        self._ensure_not_in_transaction(schema_editor)
        # An interrupted build leaves an invalid index.
        schema_editor.remove_index(model, self.index, concurrently=True)
        super().database_forwards(*arguments)

    def database_backwards(
        self, app_label: str, schema_editor: Any, from_state: Any, to_state: Any
    ) -> None:
        arguments = (app_label, schema_editor, from_state, to_state)
        if schema_editor.connection.vendor != "postgresql":
            AddIndex.database_backwards(self, *arguments)
            return
        super().database_backwards(*arguments)
