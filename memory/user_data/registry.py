"""What other apps keep of a user: deleted and exported with all the rest.

Apps above this one name their tables here when they are loaded (`apps.py`).
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from django.db.models import QuerySet

from core.ids import UserId


@dataclass(frozen=True, slots=True)
class Belongings:
    """A table with rows of users."""

    name: str
    """What erasures and exports call it, such as `tasks`."""
    rows: Callable[[UserId], QuerySet[Any]]
    """Return all of a user's."""
    describe: Callable[[list[Any]], Iterator[dict[str, Any]]]
    """Tell rows in the export, without what a user must not see."""


_registered: dict[str, Belongings] = {}


def register(belongings: Belongings) -> None:
    """Have a table be erased and exported with its users; the latest of a name holds.

    Tables are erased in the order they come in.
    """
    _registered[belongings.name] = belongings


def registered() -> list[Belongings]:
    """Return the tables of other apps."""
    return list(_registered.values())
