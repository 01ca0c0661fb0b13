"""The YAML's word on who a request belongs to."""

from collections.abc import Iterable
from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from config.sections import Config, Problem, Section

SHARED_USER_ID = "main"

Users = Annotated[
    Literal["per-request", "shared"],
    Field(
        description="`per-request` (the default): a request names its user or is "
        "refused. `shared`: requests that name nobody share one user, the same as "
        "`default_user_id: main`."
    ),
]

DefaultUserId = Annotated[
    str,
    StringConstraints(strip_whitespace=True, min_length=1),
    Field(
        description="The user of requests that name nobody. Leave it out where "
        "several people use the server: they would share one memory."
    ),
]


def _check_users(users: str | None, config: Config) -> Iterable[Problem]:
    """Refuse the two keys that contradict each other."""
    default_user_id = config.get(DEFAULT_USER_ID)
    if default_user_id is None:
        return
    if users == "per-request":
        yield Problem(
            ("users",),
            "'users: per-request' refuses requests that name no user, but "
            "'default_user_id' gives them one; remove one of the two",
            "coulisse.E301",
        )
    elif users == "shared" and default_user_id != SHARED_USER_ID:
        yield Problem(
            ("users",),
            f"'users: shared' means 'default_user_id: {SHARED_USER_ID}', but "
            f"'default_user_id' is '{default_user_id}'; remove one of the two",
            "coulisse.E302",
        )


USERS: Section[str | None] = Section(
    key="users", shape=Users, default=lambda: None, check=_check_users
)
DEFAULT_USER_ID: Section[str | None] = Section(
    key="default_user_id", shape=DefaultUserId, default=lambda: None
)
