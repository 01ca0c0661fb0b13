"""Validation of a new token's terms; each function raises `NewTokenInvalid`."""

from collections.abc import Collection
from datetime import datetime
from typing import get_args

from access.errors import NewTokenInvalid
from access.users.caller import CLIENT_USERS, USER_SEPARATOR, Budget, ClientUsers
from core.history import CHOICES

MAX_LABEL_LENGTH = 255
MAX_PRINCIPAL_LENGTH = 512
MAX_LIMIT = 2**63 - 1
"""Micro-USD; the maximum of the column."""


def check_text(text: str, param: str, max_length: int) -> str:
    text = text.strip()
    if not text:
        raise NewTokenInvalid(f"the {param} is blank; it must not be empty", param)
    if len(text) > max_length:
        raise NewTokenInvalid(
            f"the {param} has {len(text)} characters; the maximum is {max_length}",
            param,
        )
    if not text.isprintable():
        # A line break could forge a line of a list.
        raise NewTokenInvalid(
            f"the {param} has invisible characters; remove them: {text[:80]!r}", param
        )
    return text


def check_choice(value: str, choices: Collection[str], param: str, noun: str) -> None:
    if value not in choices:
        raise NewTokenInvalid(
            f"'{value:.40}' is not a {noun}: use {', '.join(choices)}", param
        )


def check_principal(text: str, client_users: ClientUsers) -> str:
    """Return the principal; that of separate users precedes a `/` and their names."""
    principal = check_text(text, "principal", MAX_PRINCIPAL_LENGTH)
    noun = "treatment of the users of clients"
    check_choice(client_users, CLIENT_USERS, "client_users", noun)
    if client_users == "separate" and USER_SEPARATOR in principal:
        # Otherwise a/b with the user c and a with the user b/c would share data.
        raise NewTokenInvalid(
            "the principal of a token with separate users contains "
            f"'{USER_SEPARATOR}': remove it",
            "principal",
        )
    return principal


def check_limit(budget: Budget, limit: int | None) -> int | None:
    param = "limit_micro_usd"
    check_choice(budget, get_args(Budget), "budget", "budget")
    if budget == "unlimited" and limit is not None:
        raise NewTokenInvalid("a limit needs a budget: total or monthly", param)
    if budget != "unlimited" and limit is None:
        raise NewTokenInvalid(f"a {budget} budget needs a limit in USD", param)
    if limit is not None and not 0 <= limit <= MAX_LIMIT:
        raise NewTokenInvalid(
            "the limit must be from 0 to 9,223,372,036,854 USD", param
        )
    return limit


def check_agents(names: Collection[str] | None) -> list[str] | None:
    if names is None:
        return None
    agents = sorted({check_text(name, "agents", MAX_LABEL_LENGTH) for name in names})
    if not agents:
        raise NewTokenInvalid(
            "the list of agents is empty: name an agent, or leave it out for all",
            "agents",
        )
    return agents


def check_history(history: str) -> str:
    if history:
        check_choice(history, CHOICES, "history", "history")
    return history


def check_expiry(expires_at: datetime | None, now: datetime) -> datetime | None:
    if expires_at is not None and expires_at <= now:
        raise NewTokenInvalid(
            f"the expiry {expires_at:%Y-%m-%d %H:%M} UTC is in the past",
            "expires_at",
        )
    return expires_at
