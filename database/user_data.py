"""The registry of tables with user data, for export and erasure.

Each app declares its tables in `user_data.py`; `settings.COULISSE_USER_DATA` lists
these modules.
"""

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from typing import Any

from django.conf import settings
from django.db.models import Model, QuerySet
from django.utils.module_loading import import_string

from core.ids import UserId


@dataclass(frozen=True, slots=True)
class Export:
    """The format of a table's rows in the export of a user's data."""

    name: str
    """The key of the list in the document."""
    describe: Callable[[list[Any]], Iterator[dict[str, Any]]] | None
    """Formats rows, without fields that a user must not see. None: the exporter formats
    this list itself."""
    rows: Callable[[UserId], QuerySet[Any]] | None = None
    """Returns the user's rows with the fields for `describe`; None uses
    `UserTable.rows`."""


@dataclass(frozen=True, slots=True)
class UserTable:
    """A table with user data."""

    name: str
    """The table's name in erasures, such as `tasks`."""
    model: type[Model]
    erased: int | None
    """Its position in the order of erasure: low numbers first, and rows before the rows
    they refer to. None: the rows stay when their user is erased."""
    through: str = ""
    """The foreign key to the row with the `user_id`; "" is the row itself."""
    export: Export | None = None

    def rows(self, users: Collection[UserId]) -> QuerySet[Any]:
        """Return all rows of the users."""
        if not self.through:
            return self.model._default_manager.filter(user_id__in=users)
        owner: Any = self.model._meta.get_field(self.through).related_model
        owners = owner._default_manager.filter(user_id__in=users)
        return self.model._default_manager.filter(**{f"{self.through}__in": owners})


def tables() -> list[UserTable]:
    """Return the tables of all apps, in the order of the export."""
    return [
        table for path in settings.COULISSE_USER_DATA for table in import_string(path)
    ]


def erasable() -> list[UserTable]:
    """Return the tables whose rows are erased with their user, in order of erasure."""
    found = [table for table in tables() if table.erased is not None]
    return sorted(found, key=lambda table: table.erased or 0)
