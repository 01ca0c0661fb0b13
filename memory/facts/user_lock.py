"""A lock that serializes changes of one user's facts."""

from datetime import datetime

from core.ids import UserId
from memory.models import Owner


def lock_user(user_id: UserId, now: datetime) -> Owner:
    """Return the user's row, created if missing, locked for this transaction.

    On PostgreSQL, SELECT … FOR UPDATE makes other transactions wait; on SQLite, the
    IMMEDIATE transaction itself already excludes other writers.
    """
    owner, _ = Owner.objects.select_for_update().get_or_create(
        user_id=user_id, defaults={"created_at": now}
    )
    return owner
