"""The shapes of tokens, accounts and audit entries for scripts."""

from datetime import datetime
from decimal import Decimal
from typing import Annotated, Any, Literal
from uuid import UUID

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from access.users.caller import ClientUsers
from core.history import History


def _parse_names(value: Any) -> Any:
    """Split the comma-separated names of a form; return a list unchanged."""
    if isinstance(value, str):
        return [name.strip() for name in value.split(",") if name.strip()]
    return value


class NewToken(BaseModel):
    """The purpose and the permissions of a new token."""

    model_config = ConfigDict(extra="forbid")

    label: str = Field(description="Its purpose, such as laptop or ci.")
    principal: str = Field(
        description="The user of its requests, as clients send it in safety_identifier."
    )
    budget: Literal["unlimited", "total", "monthly"] = "unlimited"
    limit_usd: Decimal | None = Field(
        None, description="US dollars that it may spend, in total or per month (UTC)."
    )
    expires: str = Field("never", description="`2026-12-31` (UTC), `90d` or `never`.")
    agents: Annotated[list[str], BeforeValidator(_parse_names)] | None = Field(
        None, description="The agents that it may call; by default all."
    )
    history: History | Literal[""] = Field(
        "",
        description="How its requests' messages are read; by default as the agent "
        "says.",
    )
    client_users: ClientUsers = Field(
        "refuse",
        description="What it does with other users that requests name: `refuse` or "
        "`ignore` them, or give each `separate` data of `principal/name`.",
    )


class StudioToken(BaseModel):
    """A token and its spending in micro-USD, without its secret, which is not
    stored."""

    model_config = ConfigDict(from_attributes=True)

    id: UUID
    state: Literal["active", "expired", "revoked"]
    label: str
    principal: str
    budget: Literal["unlimited", "total", "monthly"]
    limit_micro_usd: int | None
    spent_micro_usd: int
    spent_this_month_micro_usd: int
    unpriced_turns: int
    agents: list[str] | None
    history: History | Literal[""]
    client_users: ClientUsers
    created_at: datetime
    last_used_at: datetime | None
    expires_at: datetime | None
    revoked_at: datetime | None
    share: float | None = Field(description="The used share of its budget.")


class CreatedToken(StudioToken):
    """A token that was just created."""

    secret: str = Field(description="Returned only here.")


class AuditLogEntry(BaseModel):
    """A change that an operator or user made."""

    model_config = ConfigDict(from_attributes=True)

    id: int
    at: datetime
    action: str
    actor: str
    target: str
    origin: str
    details: dict[str, Any]
    request_id: Annotated[str | None, BeforeValidator(lambda text: text or None)]


class StudioAccount(BaseModel):
    """A user who has logged in to the studio."""

    username: str
    name: str
    email: str
    role: Literal["operator", "viewer"] | None
    groups: list[str]
    is_active: bool
    first_login_at: datetime


class AccountChanges(BaseModel):
    """The changes of an account; omitted fields stay unchanged."""

    model_config = ConfigDict(extra="forbid")

    role: Literal["operator", "viewer"] | None = None
    is_active: bool | None = None
