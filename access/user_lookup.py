"""What operators call users: ids are derived from names, and cannot be turned back.

Known are the names that tokens and the configuration have.
"""

import re
from collections.abc import Iterable, Mapping
from uuid import UUID

from access.config import DEFAULT_USER_ID, SHARED_USER_ID, USERS
from access.limits.config import LIMITS
from access.models import Token
from access.users import identity
from config.sections import Config
from core.ids import UserId

MOST = 10_000
"""Names of tokens that are looked at."""
LEAST_OF_ID = 4
"""Characters of an id by which users are looked for."""

HEXADECIMAL = re.compile(r"[0-9a-f-]*", re.ASCII)

Names = Mapping[UserId, str]


def known(config: Config) -> Names:
    """Return the users whose names are known, in one query."""
    principals = Token.objects.order_by("principal").values_list("principal", flat=True)
    names = [*_configured(config), *principals.distinct()[:MOST]]
    # A name that is an id says nothing more.
    return {identity.derive(name): name for name in reversed(names) if not _is_id(name)}


def _configured(config: Config) -> Iterable[str]:
    if (default := config.get(DEFAULT_USER_ID)) is not None:
        yield default
    if config.get(USERS).mode == "shared":
        yield SHARED_USER_ID
    for limit in config.get(LIMITS):
        if limit.per == "principal" and limit.name is not None:
            yield limit.name


def _is_id(name: str) -> bool:
    return identity.CANONICAL_UUID.fullmatch(name) is not None


def alike(text: str, names: Names) -> set[UserId]:
    """Return whom a text may name: the user of that very name, and similar known ones.

    Whether there is a user of that very name is not looked at.
    """
    wanted = text.strip()
    found = {user for user, name in names.items() if wanted.lower() in name.lower()}
    if 0 < len(wanted) <= identity.MAX_LENGTH:
        found |= identity.meanings(wanted)
    return found


def ids_from(text: str) -> tuple[UUID, UUID] | None:
    """Return the first and the last id that begin with a text; None for no beginning.

    Shorter ones than `LEAST_OF_ID` are rather parts of names.
    """
    digits = text.strip().lower()
    if not HEXADECIMAL.fullmatch(digits):
        return None
    digits = digits.replace("-", "")
    if not LEAST_OF_ID <= len(digits) <= 32:
        return None
    return UUID(digits.ljust(32, "0")), UUID(digits.ljust(32, "f"))
