"""Quotes must be the user's words, except for punctuation; so must dates."""
# ruff: noqa: RUF001  words of many scripts

from datetime import UTC, datetime

import pytest

from memory.extraction import date_parsing, quote_check
from tests import growth


def is_from(quote: str, text: str) -> bool:
    return quote_check.is_quoted_from(
        quote_check.normalize(quote), quote_check.normalize(text)
    )


@pytest.mark.parametrize(
    ("quote", "text"),
    [
        ("I live in Lisbon", "Well, I live in Lisbon now."),
        ("i LIVE in lisbon.", "I live in Lisbon"),
        ("“I don’t eat meat”", "I don't eat meat, never did"),
        ("my dog\n  Rex", "this is my dog Rex!"),
        ("Ｌｉｓｂｏｎ", "Lisbon"),
        ("cafe\u0301", "the café"),
        ("straße", "in der STRASSE"),
        ("well known", "a well-known man"),
        ("我住在北京", "你好，我住在北京。"),
        ("住在北京", "我住在北京朝阳区"),
        ("أعيش في القاهرة", "مرحبا، أعيش في القاهرة!"),
        ("🎉🎉", "yay 🎉🎉"),
        ("👩\u200d👧", "👩👧 us"),
        ("42", "I am 42."),
        ("ฉันชอบแมว", "สวัสดีฉันชอบแมวมาก"),
    ],
)
def test_quotes_of_the_text_are_found(quote, text):
    assert is_from(quote, text)


@pytest.mark.parametrize(
    ("quote", "text"),
    [
        ("I live in Berlin", "I live in Lisbon"),
        ("I live Lisbon", "I live in Lisbon"),
        ("art", "we start"),
        ("bon", "Lisbon"),
        ("", "anything"),
        ("?!…", "anything?!…"),
        ("4", "42"),
        ("北京我", "我住在北京"),
    ],
)
def test_other_words_are_not_found(quote, text):
    assert not is_from(quote, text)


def test_partial_word_does_not_hide_the_whole_word():
    assert is_from("cat", "concatenate the cat")


def test_quote_inside_words_takes_linear_time():
    assert not quote_check.is_quoted_from("a", "a" * 1_000_000)
    assert growth.is_linear(
        lambda text: quote_check.is_quoted_from("a", text), "", "a", ""
    )


LISBON = date_parsing.get_zone("Europe/Lisbon")
TOKYO = date_parsing.get_zone("Asia/Tokyo")


def utc(*parts: int) -> datetime:
    return datetime(*parts, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "zone", "expected"),
    [
        ("2026-03-05", UTC, utc(2026, 3, 5)),
        ("2026-03-05", TOKYO, utc(2026, 3, 4, 15)),
        ("2026-07-01T09:30", LISBON, utc(2026, 7, 1, 8, 30)),
        ("2026-07-01 09:30:15", TOKYO, utc(2026, 7, 1, 0, 30, 15)),
        ("2026-07-01T09:30:00Z", TOKYO, utc(2026, 7, 1, 9, 30)),
        ("2026-07-01T09:30:00+02:00", TOKYO, utc(2026, 7, 1, 7, 30)),
        (" 2026-03-05 ", UTC, utc(2026, 3, 5)),
        # Clocks go forward: this time does not exist, so it is shifted.
        ("2026-03-29T01:30", LISBON, utc(2026, 3, 29, 1, 30)),
    ],
)
def test_dates_use_the_users_time_zone(text, zone, expected):
    assert date_parsing.parse_instant(text, zone) == expected


def test_end_of_day_is_the_start_of_the_next():
    assert date_parsing.parse_instant("2026-12-31", TOKYO, at_end=True) == utc(
        2026, 12, 31, 15
    )
    assert date_parsing.parse_instant("2026-12-31T10:00", UTC, at_end=True) == utc(
        2026, 12, 31, 10
    )


@pytest.mark.parametrize(
    "value",
    [
        "tomorrow",
        "2026-13-01",
        "2026-02-30",
        "",
        "null",
        "05/03/2026",
        "9999-12-31",
        "0001-01-01",
        "2026-03-05T25:00",
        None,
        20260305,
        3.5,
        ["2026-03-05"],
        {},
    ],
)
def test_invalid_dates_are_none(value):
    assert date_parsing.parse_instant(value, TOKYO) is None


@pytest.mark.parametrize(
    "name", ["", "Nowhere/City", "../../etc/passwd", "/etc/passwd", "\0", "Europe"]
)
def test_unknown_time_zone_is_utc(name):
    assert date_parsing.get_zone(name) is UTC
