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
    assert money.format_usd(micro_usd) == text
