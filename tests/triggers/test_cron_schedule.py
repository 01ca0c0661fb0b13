"""Run times of cron schedules, including clock changes."""

from datetime import UTC, datetime
from itertools import islice

import pytest

from triggers.scheduling import cron_schedule
from triggers.scheduling.cron_schedule import CronSchedule


def after(expression: str, since: str, count: int = 3, zone: str = "UTC") -> list[str]:
    """Return the next run times."""
    moment = datetime.fromisoformat(since).replace(tzinfo=UTC)
    times = CronSchedule(cron_schedule.validate_expression(expression), zone).after(
        moment
    )
    return [f"{tick:%m-%d %H:%M:%S}" for tick in islice(times, count)]


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("0 9 * * *", ["03-02 09:00:00", "03-03 09:00:00"]),
        ("0 9 * * 1-5", ["03-02 09:00:00", "03-03 09:00:00"]),
        ("0 9 * * SAT", ["03-07 09:00:00", "03-14 09:00:00"]),
        ("*/15 * * * *", ["03-01 12:15:00", "03-01 12:30:00"]),
        ("30 */15 * * * *", ["03-01 12:00:30", "03-01 12:15:30"]),
        ("* * * * * *", ["03-01 12:00:01", "03-01 12:00:02"]),
        ("0 0 L * *", ["03-31 00:00:00", "04-30 00:00:00"]),
        ("0 0 * * MON#2", ["03-09 00:00:00", "04-13 00:00:00"]),
        ("  0   0 1 4 *  ", ["04-01 00:00:00", "04-01 00:00:00"]),
    ],
)
def test_cron_runs_at_its_fields(expression: str, expected: list[str]):
    # 2026-03-01 is a Sunday.
    assert after(expression, "2026-03-01 12:00", 2) == expected


@pytest.mark.parametrize(
    ("expression", "names"),
    [
        ("* * * *", "this has 4 fields"),
        ("* * * * * * *", "this has 7 fields"),
        ("@daily", "this has 1 fields"),
        ("60 * * * *", "the minute is not valid"),
        ("0 24 * * *", "the hour is not valid"),
        ("0 0 32 * *", "the day-of-month is not valid"),
        ("0 0 1 13 *", "the month is not valid"),
        ("0 0 * * 8", "the day-of-week is not valid"),
        ("60 0 0 * * *", "the second is not valid"),
        ("5-1 * * * *", "the minute is not valid"),
        ("*/0 * * * *", "the minute is not valid"),
        ("nine o'clock, every single day", "the minute is not valid"),
    ],
)
def test_invalid_expression_error_names_the_field(expression: str, names: str):
    with pytest.raises(ValueError, match=names):
        cron_schedule.validate_expression(expression)


@pytest.mark.parametrize(
    ("expression", "is_possible"),
    [
        ("0 0 30 2 *", False),
        ("0 0 0 31 4,6,9,11 *", False),
        ("0 0 29 2 *", True),
        ("0 0 31 * *", True),
        # A day needs to match only one of the two.
        ("0 0 30 2 MON", True),
        ("0 0 * 2 MON#5", True),
    ],
)
def test_impossible_expression_is_detected(expression: str, is_possible: bool):
    assert (
        CronSchedule(cron_schedule.validate_expression(expression), "UTC").is_possible
        is is_possible
    )


# In Berlin, 02:00 does not exist on 2026-03-29, and exists twice on 2026-10-25.


@pytest.mark.parametrize("expression", ["30 2 * * *", "0 30 2 * * *"])
def test_tick_in_the_skipped_hour_runs_after_it(expression: str):
    assert after(expression, "2026-03-28 12:00", 3, "Europe/Berlin") == [
        "03-29 01:00:00",  # 03:00 there
        "03-30 00:30:00",
        "03-31 00:30:00",
    ]


@pytest.mark.parametrize("expression", ["30 2 * * *", "0 30 2 * * *"])
def test_tick_in_the_repeated_hour_runs_once(expression: str):
    assert after(expression, "2026-10-24 12:00", 2, "Europe/Berlin") == [
        "10-25 00:30:00",
        "10-26 01:30:00",
    ]


def test_tick_does_not_run_again_within_the_repeated_hour():
    for minute in (31, 59):
        moment = f"2026-10-25 00:{minute}"
        assert after("30 2 * * *", moment, 1, "Europe/Berlin") == ["10-26 01:30:00"]
    # It is 02:10 for the second time.
    moment = "2026-10-25 01:10"
    assert after("30 2 * * *", moment, 1, "Europe/Berlin") == ["10-26 01:30:00"]


def test_hourly_cron_follows_elapsed_time():
    assert after("0 * * * *", "2026-03-28 23:30", 3, "Europe/Berlin") == [
        "03-29 00:00:00",
        "03-29 01:00:00",
        "03-29 02:00:00",
    ]
    assert after("0 * * * *", "2026-10-24 23:30", 3, "Europe/Berlin") == [
        "10-25 00:00:00",
        "10-25 01:00:00",
        "10-25 02:00:00",
    ]


@pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin", "America/Sao_Paulo"])
@pytest.mark.parametrize("expression", ["30 2 * * *", "*/7 * * * *", "0 0 9 * * MON"])
def test_backward_iteration_returns_the_same_times(expression: str, zone: str):
    times = CronSchedule(expression, zone)
    since = datetime(2026, 10, 20, tzinfo=UTC)
    forth = list(islice(times.after(since), 9))
    back = list(islice(times.before(forth[-1]), 9))
    assert back == forth[::-1]
