"""The people who use the studio, as Django's users: what they change bears their name.

They have no passwords here; `auth.admin` says who they are.
"""

from collections.abc import Mapping
from typing import Any

from django.contrib.auth.models import User

from access.identity import derive

MAX_USERNAME = 150


def staff(username: str, **known: str) -> User:
    """Return the user of that name, made now if there is none; they may do anything."""
    if len(username) > MAX_USERNAME:
        username = str(derive(username))
    found, is_new = User.objects.get_or_create(
        username=username,
        defaults={"is_staff": True, "is_superuser": True, "password": "!", **known},
    )
    changed = {name for name, value in known.items() if getattr(found, name) != value}
    if changed and not is_new:
        for name in changed:
            setattr(found, name, known[name])
        found.save(update_fields=changed)
    return found


def by_claims(claims: Mapping[str, Any]) -> User:
    """Return somebody the identity provider has logged in."""
    email, name = claims.get("email"), claims.get("name")
    return staff(
        # Apart from those whom `basic` names.
        f"oidc:{claims['sub']}",
        email=email[:254] if isinstance(email, str) else "",
        first_name=name[:150] if isinstance(name, str) else "",
    )
