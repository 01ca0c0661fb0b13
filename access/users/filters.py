"""Filters of the studio's lists by a user."""

from typing import Any

from django.db.models import QuerySet

from access.users import identity
from admin_base.filters import Filter


class UserFilter(Filter):
    """Rows of a user, by the name that clients send or by the UUID."""

    parameter = "user"
    field = "user_id"
    title = "User"
    description = "The name, as clients send it, or the UUID."

    def apply(self, queryset: QuerySet[Any], value: str) -> QuerySet[Any]:
        user_id = identity.derive_user_id(identity.check_identifier(value))
        return super().apply(queryset, self.value_of(user_id))

    def value_of(self, user_id: Any) -> Any:
        """Return the value of the field for a user."""
        return user_id
