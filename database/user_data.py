"""Which tables hold rows of users: what an export tells and an erasure deletes.

Each app declares its own in `user_data.py`; `settings.COULISSE_USER_DATA` names them.
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
    """How rows are told in the export of a user's data."""

    name: str
    """The name of the list in the document."""
    describe: Callable[[list[Any]], Iterator[dict[str, Any]]] | None
    """Tells rows, without what a user must not see. None: the exporter writes this list
    in its own way."""
    rows: Callable[[UserId], QuerySet[Any]] | None = None
    """Returns the user's rows with what `describe` reads; None is `UserTable.rows`."""


@dataclass(frozen=True, slots=True)
class UserTable:
    """A table with rows of users."""

    name: str
    """What erasures call it, such as `tasks`."""
    model: type[Model]
    erased: int | None
    """Its place in the order of erasure: small numbers go first, and rows before what
    they refer to. None: the rows stay when their user is erased."""
    through: str = ""
    """The foreign key to the row that has the `user_id`; "" is the row itself."""
    export: Export | None = None

    def rows(self, users: Collection[UserId]) -> QuerySet[Any]:
        """Return all rows of these users."""
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
    """Return the tables whose rows go with their user, in the order of erasure."""
    found = [table for table in tables() if table.erased is not None]
    return sorted(found, key=lambda table: table.erased or 0)
