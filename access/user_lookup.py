"""Names of users for operators: ids are derived from names and are irreversible.

Known names are those of tokens and of the configuration.
"""

from collections.abc import Iterable, Mapping
from uuid import UUID

from django.db.models import Q

from access.config import DEFAULT_USER_ID, SHARED_USER_ID, USERS
from access.limits.config import LIMITS
from access.models import ApiToken, ApiTokenQuerySet
from access.users import identity
from access.users.caller import USER_SEPARATOR
from config.sections import Config
from core import ids
from core.ids import UserId

MAX_TOKENS_READ = 10_000
"""The number of tokens whose names are read."""
MIN_ID_PREFIX = 4
"""The shortest id prefix that a search accepts."""

HAS_SEPARATE_USERS = Q(client_users="separate")

UserNames = Mapping[UserId, str]


def load_names(config: Config) -> UserNames:
    """Return the users with known names, in one query."""
    principals = ApiToken.objects.order_by("principal").values_list(
        "principal", flat=True
    )
    names = [*_configured_names(config), *principals.distinct()[:MAX_TOKENS_READ]]
    # A name that is an id adds nothing.
    return {
        identity.derive_user_id(name): name
        for name in reversed(names)
        if not is_id(name)
    }


def _configured_names(config: Config) -> Iterable[str]:
    if (default := config.get(DEFAULT_USER_ID)) is not None:
        yield default
    if config.get(USERS).mode == "shared":
        yield SHARED_USER_ID
    for limit in config.get(LIMITS):
        if limit.per == "principal" and limit.name is not None:
            yield limit.name


def is_id(name: str) -> bool:
    """Return whether an operator's text is an id rather than a name."""
    return identity.CANONICAL_UUID.fullmatch(name) is not None


def match_users(text: str, names: UserNames) -> set[UserId]:
    """Return the users that a text may name: the exact name, and known ones with it.

    It does not check whether the exact user exists.
    """
    query = text.strip()
    users = {user for user, name in names.items() if query.lower() in name.lower()}
    if 0 < len(query) <= identity.MAX_LENGTH:
        users |= identity.possible_user_ids(query)
    return users


def id_range(text: str) -> tuple[UUID, UUID] | None:
    """Return the first and last id with a prefix; None if the text is not a prefix.

    Texts shorter than `MIN_ID_PREFIX` are more likely parts of names.
    """
    return ids.uuid_range(text, min_digits=MIN_ID_PREFIX)


def user_tokens(user_id: UserId, name: str = "") -> ApiTokenQuerySet:
    """Return the tokens that act for a user.

    A token with separate users is found by the name of one, such as `webui/ada`: their
    ids do not show the token.
    """
    # Operators name a user in several ways: by the name clients send, or by its UUID.
    others = ApiToken.objects.order_by().exclude(HAS_SEPARATE_USERS)
    principals = others.values_list("principal", flat=True).distinct()
    names = [each for each in principals if identity.derive_user_id(each) == user_id]
    prefix, separator, _ = name.partition(USER_SEPARATOR)
    owner = Q(principal=prefix if separator else None)
    return ApiToken.objects.filter(
        (HAS_SEPARATE_USERS & owner) | (~HAS_SEPARATE_USERS & Q(principal__in=names))
    )
