"""The studio's users as Django users; the audit records changes under their names.

They have no passwords here: `auth.admin` authenticates them.
"""

from collections.abc import Mapping
from typing import Any

from django.contrib.auth.hashers import make_password
from django.contrib.auth.models import User
from django.db import transaction
from django.http import HttpRequest

from access.audit.audit_events import Actor
from access.authentication import roles
from access.authentication.config import AUTH
from access.authentication.roles import Role
from access.users.identity import derive_user_id
from config import live

MAX_USERNAME = 150


def get_or_create_user(
    username: str, *, role: Role = Role.OPERATOR, **fields: str
) -> User:
    """Return the user of that name; a new one is created with a role."""
    if len(username) > MAX_USERNAME:
        username = str(derive_user_id(username))
    user = User.objects.filter(username=username).first()
    if user is None:
        return _create_user(username, role, fields)
    changes = {
        name: value for name, value in fields.items() if getattr(user, name) != value
    }
    if changes:
        for name, value in changes.items():
            setattr(user, name, value)
        user.save(update_fields=changes)
    return user


def _create_user(username: str, role: Role, fields: Mapping[str, str]) -> User:
    # A page sends several requests at once; none may read a user without a role.
    with transaction.atomic():
        user, is_new = User.objects.get_or_create(
            username=username,
            defaults={"is_staff": True, "password": "!", **fields},
        )
        if is_new:
            roles.set_role(user, role)
    return user


def end_sessions(user: Any) -> None:
    """End a user's sessions, in every browser and for every copy of a cookie.

    Django stores a digest of the password in each session, and reads the password with
    the user. Setting another unusable password is therefore enough.
    """
    User.objects.filter(pk=user.pk).update(password=make_password(None))


def change_account(
    user: User, *, role: Role | None = None, is_active: bool | None = None
) -> bool:
    """Change the role or the access of an account; return whether it changed."""
    before = (roles.role_of(user), user.is_active)
    with transaction.atomic():
        if role is not None:
            roles.set_role(user, role)
            user.is_superuser = False
        if is_active is not None:
            user.is_active = is_active
        user.save(update_fields=["is_active", "is_superuser"])
        if not user.is_active:
            # Old sessions stay ended when the account is enabled again.
            end_sessions(user)
    user.refresh_from_db(fields=["groups"])
    return before != (roles.role_of(user), user.is_active)


def newcomer_role() -> Role:
    """Return the role of users who log in for the first time."""
    admin = live.current().get(AUTH).admin
    return Role.OPERATOR if admin is None else Role(admin.newcomers)


def user_from_claims(claims: Mapping[str, Any]) -> User:
    """Return the user of an OIDC login, by its claims."""
    email, name = claims.get("email"), claims.get("name")
    return get_or_create_user(
        # Separate from the usernames of `basic`.
        f"oidc:{claims['sub']}",
        role=newcomer_role(),
        email=email[:254] if isinstance(email, str) else "",
        first_name=name[:150] if isinstance(name, str) else "",
    )


def request_actor(request: HttpRequest) -> Actor:
    """Return the actor of a studio request, for the audit."""
    address = request.META.get("REMOTE_ADDR", "")
    return Actor(f"studio: {request.user.get_username()}", f"studio, {address}")
