"""Tokens as text for the terminal."""

from access.models import ApiToken, BudgetPeriod
from core import money

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
    terms += _client_terms(row)
    return f"{row.id.hex[:ID_LENGTH]} for {row.principal} ({'; '.join(terms)})"


def _client_terms(row: ApiToken) -> list[str]:
    """Return how requests are read, where that differs from the default."""
    terms = [f"history: {row.history}"] if row.history else []
    if row.client_users != "refuse":
        terms.append(f"client users: {row.client_users}")
    return terms


def token_line(row: ApiToken) -> str:
    columns = [
        f"{row.id.hex[:ID_LENGTH]}  {row.state:<7}",
        f"{row.label:<20}",
        f"{format_budget(row):<18}",
        f"{format_spent(row):<14}",
        f"[{row.principal}]",
        format_last_use(row),
        format_expiry(row),
    ]
    if row.agents is not None:
        columns.append(f"agents: {', '.join(row.agents)}")
    columns += _client_terms(row)
    return "  ".join(filter(None, columns))


def format_budget(row: ApiToken) -> str:
    if row.budget == BudgetPeriod.UNLIMITED or row.limit_micro_usd is None:
        return "unlimited"
    limit = money.format_usd(row.limit_micro_usd)
    return (
        f"{limit} / month" if row.budget == BudgetPeriod.MONTHLY else f"{limit} total"
    )


def format_spent(row: ApiToken) -> str:
    """Return the spending of a token as text: in its budget's month, and in total."""
    total = money.format_usd(row.spent_micro_usd)
    text = f"spent {total}"
    if row.budget == BudgetPeriod.MONTHLY:
        month = money.format_usd(row.spent_this_month_micro_usd)
        text = f"spent {month} this month, {total} total"
    if row.unpriced_turns:
        turns = "turn" if row.unpriced_turns == 1 else "turns"
        text += f" + {row.unpriced_turns:,} {turns} of unknown price"
    return text


def format_last_use(row: ApiToken) -> str:
    if row.last_used_at is None:
        return "never used"
    return f"last used {row.last_used_at:%Y-%m-%d %H:%M}"


def format_expiry(row: ApiToken) -> str:
    if row.revoked_at is not None:
        return f"revoked {row.revoked_at:%Y-%m-%d %H:%M}"
    if row.expires_at is None:
        return "never expires"
    verb = "expired" if row.state == "expired" else "expires"
    return f"{verb} {row.expires_at:%Y-%m-%d %H:%M}"
