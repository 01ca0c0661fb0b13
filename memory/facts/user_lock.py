"""One user's facts change one after the other."""

from datetime import datetime

from core.ids import UserId
from memory.models import Owner


def lock_user(user_id: UserId, now: datetime) -> Owner:
    """Return the user's row, made if need be, for this transaction alone.

    Whoever else wants it waits: SELECT … FOR UPDATE on PostgreSQL; on SQLite the
    transaction itself, being IMMEDIATE, has let nobody else write.
    """
    owner, _ = Owner.objects.select_for_update().get_or_create(
        user_id=user_id, defaults={"created_at": now}
    )
    return owner
