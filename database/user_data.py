"""The registry of tables with user data, for export and erasure.

Each app declares its tables in `user_data.py`; `settings.COULISSE_USER_DATA` lists
these modules.
"""

from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Any

from django.conf import settings
from django.db.models import Model, Q, QuerySet
from django.utils.module_loading import import_string
from pydantic import BaseModel, ConfigDict

from core.ids import UserId


class ExportedRow(BaseModel):
    """A row in an export: its fields, without those that a user must not see."""

    model_config = ConfigDict(from_attributes=True)


@dataclass(frozen=True, slots=True)
class Export:
    """The format of a table's rows in the export of a user's data."""

    name: str
    """The key of the list in the document."""
    schema: type[BaseModel]
    """Describes the items and serialises the rows."""
    rows: Callable[[UserId], QuerySet[Any]] | None = None
    """Returns the user's rows with what `schema` reads; None uses `UserTable.rows`."""


@dataclass(frozen=True, slots=True)
class UserTable:
    name: str
    """The table's name in erasures, such as `tasks`."""
    model: type[Model]
    erased: int | None
    """Its position in the order of erasure: low numbers first, and rows before the rows
    they refer to. None: the rows stay when their user is erased."""
    through: str = ""
    """The foreign key to the row with the `user_id`; "" is the row itself."""
    where: Q = field(default_factory=Q)
    """Selects these rows of a table with several kinds of data."""
    export: Export | None = None

    def rows(self, users: Collection[UserId]) -> QuerySet[Any]:
        if not self.through:
            return self.model._default_manager.filter(self.where, user_id__in=users)
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
