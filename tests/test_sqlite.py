"""Statements keep their meaning on the way to SQLite."""

import pytest
from django.db import connection

pytestmark = [
    pytest.mark.usefixtures("database"),
    pytest.mark.skipif(connection.vendor != "sqlite", reason="it is SQLite's backend"),
]


def ask(statement: str, values: object) -> list[tuple[object, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(statement, values)
        return cursor.fetchall()


def test_statement_is_repeatable():
    for value in ("50 %s off", "it's ?", "%%", None, 7):
        assert ask("SELECT %s, '100%% ?'", (value,)) == [(value, "100% ?")]


def test_values_can_have_names():
    assert ask("SELECT %(a)s, %(b)s", {"a": 1, "b": "%s"}) == [(1, "%s")]


def test_statement_can_exceed_the_cache_size():
    many = list(range(3000))

    summed = f"SELECT sum(column1) FROM (VALUES {', '.join(['(%s)'] * 3000)})"

    assert ask(summed, many) == [(sum(many),)]


def test_executemany_writes_all_rows():
    with connection.cursor() as cursor:
        cursor.execute("CREATE TEMP TABLE pair (a, b)")
        cursor.executemany("INSERT INTO pair VALUES (%s, '%%' || %s)", [(1, 2), (3, 4)])
        cursor.execute("SELECT * FROM pair")

        assert cursor.fetchall() == [(1, "%2"), (3, "%4")]
