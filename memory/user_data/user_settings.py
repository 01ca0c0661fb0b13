"""Settings with which a user switches their memory on and off."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from django.db import transaction

from core.ids import UserId
from memory.models import Owner

COLUMNS = {"recall": "is_recall_on", "learning": "is_learning_on"}


@dataclass(frozen=True, slots=True)
class UserSettings:
    recall: bool
    """Whether prompts and tools of agents use what is stored."""
    learning: bool
    """Whether facts, rules and episodes are extracted or saved by agents."""


def get_settings(user_id: UserId) -> UserSettings:
    """Return the settings; both are on for a user of whom nothing is stored."""
    return _read(Owner.objects.of_user(user_id))


def change_settings(
    user_id: UserId, changes: Mapping[str, bool]
) -> tuple[UserSettings, bool]:
    """Store changes, by setting; return all settings, and whether they differ."""
    with transaction.atomic():
        owner = Owner.objects.lock(user_id, datetime.now(UTC))
        before = _read(owner)
        for name, value in changes.items():
            setattr(owner, COLUMNS[name], value)
        owner.save(update_fields=[COLUMNS[name] for name in changes])
    after = _read(owner)
    return after, after != before


def _read(owner: Owner) -> UserSettings:
    return UserSettings(
        **{name: getattr(owner, column) for name, column in COLUMNS.items()}
    )
