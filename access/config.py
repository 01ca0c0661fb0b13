"""The YAML's `users:`: which user a request belongs to."""

from collections.abc import Iterable
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StringConstraints,
    model_validator,
)

from config.sections import Config, Problem, Section

SHARED_USER_ID = "main"

UserMode = Literal["per-request", "per-thread", "shared"]


STANDARD_HEADERS = {
    "authorization",
    "connection",
    "content-length",
    "content-type",
    "cookie",
    "host",
    "x-api-key",
}
"""Headers with a meaning of their own."""


def _check_header_name(name: str) -> str:
    if name.lower() in STANDARD_HEADERS:
        raise ValueError("must not be a header with another meaning")
    return name


HeaderName = Annotated[
    str,
    StringConstraints(pattern=r"^[A-Za-z0-9-]{1,100}$"),
    AfterValidator(_check_header_name),
]


class UserHeaders(BaseModel):
    """Headers of a client that has names of its own for users and threads."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    user: HeaderName | None = Field(
        None,
        description="A header that names the user, besides `X-Coulisse-User`: "
        "`X-OpenWebUI-User-Id`.",
    )
    thread: HeaderName | None = Field(
        None,
        description="A header that names the thread, besides `X-Coulisse-Thread`: "
        "`X-OpenWebUI-Chat-Id`.",
    )

    @model_validator(mode="after")
    def _check_distinct(self) -> "UserHeaders":
        if self.user and self.thread and self.user.lower() == self.thread.lower():
            raise ValueError("'user' and 'thread' must be different headers")
        return self


class UsersConfig(BaseModel):
    """How requests are assigned to users; the mode alone may replace the map."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    mode: UserMode | None = Field(
        None,
        description="`per-request` (the default) refuses requests that name no user. "
        "`per-thread` gives each of their threads a user of its own. "
        "`shared` assigns them to one shared user, like `default_user_id: main`.",
    )
    accept_uuids: bool = Field(
        True,
        description="Whether a UUID from a client is itself the id of a user. With "
        "`false` it is a name like any other, so clients cannot name users by id. "
        "Changing this gives clients that send UUIDs different users.",
    )
    headers: UserHeaders = Field(
        UserHeaders(),
        description="Further headers that name the user and the thread of a request.",
    )


def _expand_mode(value: Any) -> Any:
    """Expand a mode to a map."""
    return {"mode": value} if isinstance(value, str) else value


Users = Annotated[
    UsersConfig,
    BeforeValidator(_expand_mode, json_schema_input_type=UserMode | UsersConfig),
]

DefaultUserId = Annotated[
    str,
    StringConstraints(strip_whitespace=True, min_length=1),
    Field(
        description="The user of requests that name no user. Leave it out if several "
        "people use the server: they would share one memory."
    ),
]


def _check_users(users: UsersConfig, config: Config) -> Iterable[Problem]:
    """Refuse the two keys that contradict each other."""
    default_user_id = config.get(DEFAULT_USER_ID)
    if default_user_id is None:
        return
    if users.mode == "per-request":
        yield Problem(
            ("users",),
            "'users: per-request' refuses requests that name no user, but "
            "'default_user_id' gives them one; remove one of the two",
            "coulisse.E301",
        )
    elif users.mode == "per-thread":
        yield Problem(
            ("users",),
            "'users: per-thread' gives each thread a user of its own, but "
            "'default_user_id' gives all the same; remove one of the two",
            "coulisse.E311",
        )
    elif users.mode == "shared" and default_user_id != SHARED_USER_ID:
        yield Problem(
            ("users",),
            f"'users: shared' means 'default_user_id: {SHARED_USER_ID}', but "
            f"'default_user_id' is '{default_user_id}'; remove one of the two",
            "coulisse.E302",
        )


USERS: Section[UsersConfig] = Section(
    key="users",
    shape=Users,
    default=UsersConfig,
    check=_check_users,
    fails_closed=True,
    description="how requests are assigned to users",
)
DEFAULT_USER_ID: Section[str | None] = Section(
    key="default_user_id",
    shape=DefaultUserId,
    default=lambda: None,
    fails_closed=True,
    description="the user of requests that do not name one",
)
