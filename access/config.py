"""The YAML's word on who may call, and on who a request belongs to."""

from collections.abc import Iterable
from typing import Annotated, Any, Literal

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    SecretStr,
    StringConstraints,
    field_validator,
)

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


def _refuse(value: Any) -> None:
    # Present but asking for nothing is what an empty key looks like.
    if value not in (None, {}):
        raise ValueError("is not available in this version of Coulisse; remove it")


Planned = Annotated[
    dict[str, Any] | None,
    BeforeValidator(_refuse),
    Field(description="Not available in this version."),
]


class AuthConfig(BaseModel):
    """Who may call what; this version guards one endpoint."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)

    mcp_consumer_secret: SecretStr | None = Field(
        None,
        description="What a backend of yours sends as a bearer token to make links "
        "with which users connect MCP servers. Unset: nobody can.",
    )
    admin: Planned = None
    proxy: Planned = None

    @field_validator("mcp_consumer_secret", mode="after")
    @classmethod
    def _can_be_sent(cls, value: SecretStr | None) -> SecretStr | None:
        text = "" if value is None else value.get_secret_value().strip()
        if not text:
            return None
        if not text.isascii() or not text.isprintable() or " " in text:
            raise ValueError("must be visible ASCII characters, to fit into a header")
        return SecretStr(text)


def check_users(users: str | None, config: Config) -> Iterable[Problem]:
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


AUTH = Section(key="auth", shape=AuthConfig, default=AuthConfig)
USERS: Section[str | None] = Section(
    key="users", shape=Users, default=lambda: None, check=check_users
)
DEFAULT_USER_ID: Section[str | None] = Section(
    key="default_user_id", shape=DefaultUserId, default=lambda: None
)
