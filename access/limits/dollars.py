"""Dollar amounts as text; the program stores whole micro-dollars."""

import re
from decimal import Decimal

from core.errors import Invalid

MICRO_PER_USD = 1_000_000


class AmountInvalid(Invalid):
    """The text is not an amount of dollars."""


def parse_usd(text: str) -> int:
    """Return the micro-dollars of an amount such as `20`, `$0.50` or `0.000001`.

    Raises `AmountInvalid` for any other text and for fractions of a micro-dollar, so
    that the stored amount is exact.
    """
    number = text.strip().removeprefix("$")
    # Decimal's own parser accepts NaN, Infinity, 1_0 and 1e999999.
    match = re.fullmatch(r"(-?)(\d{1,18})(?:\.(\d*))?", number, re.A)
    if match is None:
        raise AmountInvalid(
            f"'{text:.40}' is not an amount of dollars: write it as 20 or 0.50"
        )
    if match[1] and number.strip("-0."):
        raise AmountInvalid(f"{number:.40} is negative; give 0 or more")
    if len((match[3] or "").rstrip("0")) > 6:
        raise AmountInvalid(
            f"{number:.40} has more than six decimals; round it to a micro-dollar"
        )
    return abs(int(Decimal(number) * MICRO_PER_USD))
