"""Format micro-dollars, the unit of all amounts, for users and clients."""


def decimal_usd(micro_usd: int) -> str:
    """Return an amount as dollars with six decimals: `0.001234`."""
    sign = "-" if micro_usd < 0 else ""
    dollars, micro_dollars = divmod(abs(micro_usd), 1_000_000)
    return f"{sign}{dollars}.{micro_dollars:06}"


def format_usd(micro_usd: int) -> str:
    """Return an amount as text: `$20.00`; `$0.0004` for fractions of a cent."""
    dollars, micro_dollars = divmod(micro_usd, 1_000_000)
    decimals = f"{micro_dollars:06}".rstrip("0")
    return f"${dollars:,}.{decimals:0<2}"
