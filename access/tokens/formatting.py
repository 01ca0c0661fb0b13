"""Tokens as text for the terminal and as JSON."""

from typing import Any

from access.limits import dollars
from access.models import ApiToken, BudgetPeriod
from access.tokens.token_queries import TokenUsage

ID_LENGTH = 8
"""Characters of an id in lists; `revoke` accepts them."""


def token_name(row: ApiToken) -> str:
    """Return the name of a token within a sentence."""
    return f"{row.id.hex[:ID_LENGTH]} ({row.label})"


def describe_token(row: ApiToken) -> str:
    """Return the user and the terms of a token."""
    terms = [format_budget(row)]
    if row.agents is not None:
        terms.append(f"agents: {', '.join(row.agents)}")
    if row.expires_at is not None:
        terms.append(f"until {row.expires_at:%Y-%m-%d %H:%M} UTC")
    return f"{row.id.hex[:ID_LENGTH]} for {row.principal} ({'; '.join(terms)})"


def token_line(token: TokenUsage) -> str:
    """Return a token as one line."""
    row = token.row
    columns = [
        f"{row.id.hex[:ID_LENGTH]}  {token.state:<7}",
        f"{row.label:<20}",
        f"{format_budget(row):<18}",
        f"{format_spent(token):<14}",
        f"[{row.principal}]",
        format_last_use(token),
        format_expiry(token),
    ]
    if row.agents is not None:
        columns.append(f"agents: {', '.join(row.agents)}")
    return "  ".join(filter(None, columns))


def format_budget(row: ApiToken) -> str:
    """Return the budget of a token as text."""
    if row.budget == BudgetPeriod.UNLIMITED or row.limit_micro_usd is None:
        return "unlimited"
    limit = dollars.format_usd(row.limit_micro_usd)
    return (
        f"{limit} / month" if row.budget == BudgetPeriod.MONTHLY else f"{limit} total"
    )


def format_spent(token: TokenUsage) -> str:
    """Return the spending of a token as text: in its budget's month, and in total."""
    total = dollars.format_usd(token.spent_micro_usd)
    text = f"spent {total}"
    if token.row.budget == BudgetPeriod.MONTHLY:
        month = dollars.format_usd(token.month_micro_usd)
        text = f"spent {month} this month, {total} total"
    if token.unpriced:
        turns = "turn" if token.unpriced == 1 else "turns"
        text += f" + {token.unpriced:,} {turns} of unknown price"
    return text


def format_last_use(token: TokenUsage) -> str:
    """Return the last use of a token as text."""
    if token.last_used_at is None:
        return "never used"
    return f"last used {token.last_used_at:%Y-%m-%d %H:%M}"


def format_expiry(token: TokenUsage) -> str:
    """Return the expiry of a token as text."""
    row = token.row
    if row.revoked_at is not None:
        return f"revoked {row.revoked_at:%Y-%m-%d %H:%M}"
    if row.expires_at is None:
        return "never expires"
    verb = "expired" if token.state == "expired" else "expires"
    return f"{verb} {row.expires_at:%Y-%m-%d %H:%M}"


def as_json(token: TokenUsage) -> dict[str, Any]:
    """Return all fields of a token except its secret, which is not stored."""
    row = token.row
    return {
        "id": str(row.id),
        "state": token.state,
        "label": row.label,
        "principal": row.principal,
        "budget": row.budget,
        "limit_micro_usd": row.limit_micro_usd,
        "spent_micro_usd": token.spent_micro_usd,
        "spent_this_month_micro_usd": token.month_micro_usd,
        "unpriced_turns": token.unpriced,
        "agents": row.agents,
        "created_at": row.created_at,
        "last_used_at": token.last_used_at,
        "expires_at": row.expires_at,
        "revoked_at": row.revoked_at,
    }
