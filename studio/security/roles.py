"""What the people of the studio may do: viewers look, operators also change.

A role is a Django group, so that the page of a person gives and takes it.
"""

from enum import StrEnum
from typing import Any

from django.contrib.auth.models import Group, User


class Role(StrEnum):
    """Named as its group is."""

    OPERATOR = "operator"
    VIEWER = "viewer"


def role_of(user: Any) -> Role | None:
    """Return somebody's role; None for who has none, or is not active any more.

    It is read once for a request: the person is, too.
    """
    if not user.is_active:
        return None
    if user.is_superuser:
        return Role.OPERATOR
    known: Role | None = getattr(user, "studio_role", None)
    if known is None:
        groups = set(user.groups.values_list("name", flat=True))
        known = next((role for role in Role if role in groups), None)
        user.studio_role = known
    return known


def set_role(user: User, role: Role) -> None:
    """Give somebody a role, in place of the one they had."""
    group, _ = Group.objects.get_or_create(name=role)
    others = Group.objects.filter(name__in=set(Role) - {role})
    user.groups.remove(*others)
    user.groups.add(group)
