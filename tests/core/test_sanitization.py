"""Invisible characters are escaped."""

import pytest

from core.text.sanitization import escape_and_truncate, escape_invisible


@pytest.mark.parametrize(
    ("text", "seen"),
    [
        ("Grüße, 世界 🙂", "Grüße, 世界 🙂"),
        ("a\nb\r\tc\0", r"a\nb\r\tc\x00"),
        ("\x1b[31mred\x9b", r"\x1b[31mred\x9b"),
        ("a\u2028b\u0085\u202ec\ufeff", r"a\u2028b\x85\u202ec\ufeff"),
        ("half \ud800", r"half \ud800"),
        ("", ""),
    ],
)
def test_invisible_characters_are_escaped(text, seen):
    assert escape_invisible(text) == seen


@pytest.mark.parametrize(
    ("text", "quoted"),
    [
        ("short", "short"),
        ("x" * 100, "x" * 100),
        ("x" * 101, "x" * 99 + "…"),
        ("a\nb", r"a\nb"),
        ("\U000e0001" * 100, (r"\U000e0001" * 10)[:99] + "…"),
    ],
)
def test_truncation_counts_escapes(text, quoted):
    assert escape_and_truncate(text) == quoted
    assert len(escape_and_truncate(text)) <= 100
