"""Roles of the studio: viewers may read, operators may also change things.

A role is a Django group, so the page of an account can assign it.
"""

from enum import StrEnum
from typing import Any

from django.contrib.auth.models import Group, User


class Role(StrEnum):
    """A role; its value is the name of its group."""

    OPERATOR = "operator"
    VIEWER = "viewer"


def role_of(user: Any) -> Role | None:
    """Return the user's role; None without a role or for an inactive user.

    The role is read once per request, as the user is.
    """
    if not user.is_active:
        return None
    if user.is_superuser:
        return Role.OPERATOR
    role: Role | None = getattr(user, "studio_role", None)
    if role is None:
        groups = set(user.groups.values_list("name", flat=True))
        role = next((each for each in Role if each in groups), None)
        user.studio_role = role
    return role


def set_role(user: User, role: Role) -> None:
    """Replace the user's role."""
    group, _ = Group.objects.get_or_create(name=role)
    others = Group.objects.filter(name__in=set(Role) - {role})
    user.groups.remove(*others)
    user.groups.add(group)
