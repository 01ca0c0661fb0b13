"""Micro-dollars, in which all money is reckoned, as people and clients read them."""


def format_usd(micro_usd: int) -> str:
    """Return a sum as dollars with all six decimals: `0.001234`."""
    sign = "-" if micro_usd < 0 else ""
    dollars, rest = divmod(abs(micro_usd), 1_000_000)
    return f"{sign}{dollars}.{rest:06}"
