"""Formatting of dollar amounts."""

import pytest

from core import money


@pytest.mark.parametrize(
    ("micro_usd", "text"),
    [
        (0, "0.000000"),
        (1, "0.000001"),
        (1_234, "0.001234"),
        (12_345_678, "12.345678"),
        (10**18 + 1, "1000000000000.000001"),
        (-1_500_000, "-1.500000"),
    ],
)
def test_format_usd_shows_all_decimals(micro_usd, text):
    assert money.decimal_usd(micro_usd) == text


@pytest.mark.parametrize(
    ("micro_usd", "text"),
    [
        (0, "$0.00"),
        (20_000_000, "$20.00"),
        (1_270_000, "$1.27"),
        (400, "$0.0004"),
        (1, "$0.000001"),
        (1_234_500_000, "$1,234.50"),
    ],
)
def test_formatted_amount_keeps_every_digit(micro_usd, text):
    assert money.format_usd(micro_usd) == text
