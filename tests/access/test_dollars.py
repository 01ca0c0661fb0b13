"""Parsing and formatting of dollar amounts, to the micro-dollar."""

import pytest

from access.limits import dollars
from access.limits.dollars import AmountInvalid


@pytest.mark.parametrize(
    ("text", "micro_usd"),
    [
        ("20", 20_000_000),
        ("$20", 20_000_000),
        (" 0.5 ", 500_000),
        ("0.50", 500_000),
        ("5.", 5_000_000),
        ("0.000001", 1),
        ("1.2300000000", 1_230_000),
        ("0.1", 100_000),
        ("0", 0),
        ("-0.00", 0),
        ("9223372036854.775807", 2**63 - 1),
        ("999999999999999999.999999", 999_999_999_999_999_999_999_999),
    ],
)
def test_amounts_are_exact(text, micro_usd):
    assert dollars.parse_usd(text) == micro_usd


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "not an amount"),
        ("NaN", "not an amount"),
        ("Infinity", "not an amount"),
        ("1e3", "not an amount"),
        ("1_000", "not an amount"),
        ("1,000", "not an amount"),
        ("0x10", "not an amount"),
        (".5", "not an amount"),
        ("٣", "not an amount"),
        ("9" * 19, "not an amount"),
        ("-1", "is negative"),
        ("-0.000001", "is negative"),
        ("0.0000001", "six decimals"),
        ("1.0000001", "six decimals"),
    ],
)
def test_invalid_amount_is_refused(text, words):
    with pytest.raises(AmountInvalid, match=words):
        dollars.parse_usd(text)
