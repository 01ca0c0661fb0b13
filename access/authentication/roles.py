"""The roles of accounts: `migrate` grants the groups their permissions.

Other groups are made in the studio.
"""

from enum import StrEnum

from django.contrib.auth.models import Group, User

from admin_base import groups


class Role(StrEnum):
    """A role; its value is the name of its group."""

    OPERATOR = groups.OPERATORS
    VIEWER = groups.VIEWERS


def role_of(user: User) -> Role | None:
    """Return the role among the user's groups; None if there is none."""
    if user.is_superuser:
        return Role.OPERATOR
    names = {group.name for group in user.groups.all()}
    return next((role for role in Role if role in names), None)


def set_role(user: User, role: Role) -> None:
    group, _ = Group.objects.get_or_create(name=role)
    others = Group.objects.filter(name__in=set(Role) - {role})
    user.groups.remove(*others)
    user.groups.add(group)
