"""Parsing of times that users type."""

from datetime import UTC, datetime, timedelta

import pytest

from core.text import time_parsing
from core.text.time_parsing import TimeInvalid

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "length"),
    [
        ("12h", timedelta(hours=12)),
        (" 90D ", timedelta(days=90)),
        ("2w", timedelta(weeks=2)),
    ],
)
def test_duration_is_parsed_for_future_and_past(text, length):
    assert time_parsing.parse_future(text, NOW) == NOW + length
    assert time_parsing.parse_past(text, NOW) == NOW - length


def test_day_ends_at_its_end_and_begins_at_its_beginning():
    assert time_parsing.parse_future("2026-12-31", NOW) == datetime(
        2026, 12, 31, 23, 59, 59, 999999, tzinfo=UTC
    )
    assert time_parsing.parse_past("2026-12-31", NOW) == datetime(
        2026, 12, 31, tzinfo=UTC
    )


@pytest.mark.parametrize(
    ("text", "hour"),
    [
        ("2026-12-31T18:00", 18),
        ("2026-12-31 18:00:00", 18),
        ("2026-12-31T18:00Z", 18),
        ("2026-12-31T18:00+02:00", 16),
    ],
)
def test_time_without_zone_is_utc(text, hour):
    instant = datetime(2026, 12, 31, hour, tzinfo=UTC)
    assert (
        time_parsing.parse_future(text, NOW)
        == time_parsing.parse_past(text, NOW)
        == instant
    )


@pytest.mark.parametrize(
    "text",
    [
        "",
        "tomorrow",
        "90",
        "90x",
        "-5d",
        "1.5h",
        "٣d",
        "999999999d",
        "9999999w",
        "2026-13-01",
        "2026-02-30",
        "20261231",
        "2026-W01-1",
        "31.12.2026",
        "2026-12-31T25:00",
        "0001-01-01T00:00+23:00",
        "2026-12-31T",
    ],
)
def test_invalid_time_is_refused(text):
    for read in (time_parsing.parse_future, time_parsing.parse_past):
        with pytest.raises(TimeInvalid, match="2026-12-31, a time such as"):
            read(text, NOW)
