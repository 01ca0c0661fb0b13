"""Format micro-dollars, the unit of all amounts, for users and clients."""


def format_usd(micro_usd: int) -> str:
    """Return an amount as dollars with six decimals: `0.001234`."""
    sign = "-" if micro_usd < 0 else ""
    dollars, micro_dollars = divmod(abs(micro_usd), 1_000_000)
    return f"{sign}{dollars}.{micro_dollars:06}"
