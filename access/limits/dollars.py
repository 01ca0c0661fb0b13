"""Dollars as people type and read them; inside they are whole micro-dollars."""

import re
from decimal import Decimal

from core.errors import Invalid

MICRO_PER_USD = 1_000_000


class AmountInvalid(Invalid):
    """This is no amount of dollars."""


def parse_usd(text: str) -> int:
    """Return the micro-dollars of an amount such as `20`, `$0.50` or `0.000001`.

    Raises `AmountInvalid` for what is none or finer than a micro-dollar, so that what
    is kept is what was asked for.
    """
    given = text.strip().removeprefix("$")
    # Not Decimal's own reading, which takes NaN, Infinity, 1_0 and 1e999999.
    match = re.fullmatch(r"(-?)(\d{1,18})(?:\.(\d*))?", given, re.A)
    if match is None:
        raise AmountInvalid(
            f"'{text:.40}' is no amount of dollars: write it as 20 or 0.50"
        )
    if match[1] and given.strip("-0."):
        raise AmountInvalid(f"{given:.40} is less than nothing")
    if len((match[3] or "").rstrip("0")) > 6:
        raise AmountInvalid(
            f"{given:.40} is finer than a micro-dollar: six decimals are kept"
        )
    return abs(int(Decimal(given) * MICRO_PER_USD))


def format_usd(micro_usd: int) -> str:
    """Return an amount as people write it: `$20.00`; `$0.0004`, where cents hide it."""
    whole, rest = divmod(micro_usd, MICRO_PER_USD)
    decimals = f"{rest:06}".rstrip("0")
    return f"${whole:,}.{decimals:0<2}"
