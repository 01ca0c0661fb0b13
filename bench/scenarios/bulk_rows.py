"""Fills the database like a large fleet's: `python -m bench bulk-rows [-c PATH]`.

The rows are made by the database itself, so that millions take minutes. Their turns are
spread evenly over the last days, and over all users; each has one model call. A user
has one thread with a message for each side of its turns, unless `--no-messages`.
"""

import argparse
import os
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

MODELS = ("openai/gpt-5-mini", "openai/gpt-5", "anthropic/claude-sonnet")

# For turn `n` of 0 to turns - 1, oldest first. Each user has its turns apart in time.
PIECES = {
    "postgresql": {
        "series": "SELECT n FROM generate_series(%(low)s, %(high)s - 1) AS g(n)",
        "uuid": "lpad(to_hex({}), 32, '0')::uuid",
        "at": "timestamptz '{start}' + interval '1 second' * ({})",
        "true": "true",
    },
    "sqlite": {
        "series": "WITH RECURSIVE g(n) AS (SELECT %(low)s UNION ALL "
        "SELECT n + 1 FROM g WHERE n + 1 < %(high)s) SELECT n FROM g",
        "uuid": "printf('%%032x', {})",
        "at": "strftime('%%Y-%%m-%%d %%H:%%M:%%f000', julianday('{start}') "
        "+ ({}) / 86400.0)",
        "true": "1",
    },
}
TURNS_SQL = """
    INSERT INTO telemetry_turn (id, user_id, thread, agent, origin, user_message,
        is_streamed, started_at, seconds, outcome, finish_reason, request_id,
        input_tokens, output_tokens, cache_read_tokens, cache_write_tokens,
        reasoning_tokens, cost_micro_usd, known_cost_micro_usd, model_calls, tool_calls)
    SELECT {id}, {user}, '', {agent}, 'chat', 'What is new since the last time?',
        {true}, {at}, 0.5 + n %% 97 / 10.0,
        CASE WHEN n %% 100 = 0 THEN 'error' ELSE 'ok' END, 'stop', 'req_1',
        100 + n %% 300, n %% 90, 0, 0, 0,
        CASE WHEN n %% 500 = 0 THEN NULL ELSE 90 + n %% 1009 END,
        CASE WHEN n %% 500 = 0 THEN 0 ELSE 90 + n %% 1009 END, 1, 0
    FROM ({series}) AS turns
"""
CALLS_SQL = """
    INSERT INTO telemetry_modelcall (turn_id, position, started_at, seconds, agent,
        provider, model, finish_reason, input_tokens, output_tokens, cache_read_tokens,
        cache_write_tokens, reasoning_tokens, cost_micro_usd)
    SELECT {id}, 0, {at}, 0.5, {agent},
        CASE WHEN n %% 3 = 2 THEN 'anthropic' ELSE 'openai' END,
        CASE n %% 3 WHEN 0 THEN 'gpt-5-mini' WHEN 1 THEN 'gpt-5'
            ELSE 'claude-sonnet' END,
        'stop', 100 + n %% 300, n %% 90, 0, 0, 0,
        CASE WHEN n %% 500 = 0 THEN NULL ELSE 90 + n %% 1009 END
    FROM ({series}) AS turns
"""
THREADS_SQL = """
    INSERT INTO memory_thread (user_id, name, length, created_at, updated_at)
    SELECT {of_user}, '', 2, {at_user}, {at_user} FROM ({series}) AS users
"""
OWNERS_SQL = """
    INSERT INTO memory_owner (user_id, version, time_zone, created_at)
    SELECT {of_user}, 0, '', {at_user} FROM ({series}) AS users
"""
BATCH = 100_000


def fill(turns: int, users: int, days: int, *, now: datetime | None = None) -> None:
    """Insert turns with their calls, and a thread and an owner for each user."""
    from django.db import connection

    pieces = PIECES[connection.vendor]
    end = (now or datetime.now(UTC)).timestamp()
    start = f"{datetime.fromtimestamp(end - days * 86_400, UTC):%Y-%m-%d %H:%M:%S}"
    if connection.vendor == "postgresql":
        start += "+00"

    def at(index: str, count: int) -> str:
        seconds = f"{index} * {days * 86_400 / count}"
        return pieces["at"].replace("{start}", start).format(seconds)

    names = {
        "id": pieces["uuid"].format("n + 1"),
        # A prime above all counts spreads the users.
        "user": pieces["uuid"].format(f"1 + (CAST(n AS bigint) * 7919) %% {users}"),
        "of_user": pieces["uuid"].format("1 + n"),
        "agent": "CASE n %% 4 WHEN 0 THEN 'desk' WHEN 1 THEN 'sales' WHEN 2 THEN "
        "'writer' ELSE 'coder' END",
        "at": at("n", turns),
        "at_user": at("n", users),
        "true": pieces["true"],
        "series": pieces["series"],
    }
    for sql, count in (
        (TURNS_SQL, turns),
        (CALLS_SQL, turns),
        (THREADS_SQL, users),
        (OWNERS_SQL, users),
    ):
        _run_in_batches(connection, sql.format(**names), count)
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE")
        if connection.vendor == "postgresql":
            cursor.execute("VACUUM")


def _run_in_batches(connection: Any, sql: str, count: int) -> None:
    for low, high in _ranges(count):
        with connection.cursor() as cursor:
            cursor.execute(sql % {"low": low, "high": high})


def _ranges(count: int) -> Iterator[tuple[int, int]]:
    for low in range(0, count, BATCH):
        yield low, min(low + BATCH, count)


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(
        prog="python -m bench bulk-rows", description=__doc__
    )
    parser.add_argument("-c", "--config", help="the YAML whose database is filled")
    parser.add_argument("--turns", type=int, default=1_900_000)
    parser.add_argument("--users", type=int, default=600_000)
    parser.add_argument("--days", type=int, default=57)
    options = parser.parse_args(arguments)
    if options.config:
        os.environ["COULISSE_CONFIG"] = options.config
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "coulisse_site.settings")
    import django

    django.setup()
    from django.core.management import call_command

    call_command("migrate", verbosity=0)
    started_at = time.monotonic()
    fill(options.turns, options.users, options.days)
    print(f"inserted in {time.monotonic() - started_at:.0f} s")
