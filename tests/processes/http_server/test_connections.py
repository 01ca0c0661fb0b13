"""The table of open connections: counting and refusals."""

import pytest

from config.config import ServerConfig
from processes.http_server import connections
from processes.http_server.connections import (
    ConnectionLimits,
    ConnectionTable,
    LogBurst,
)


class IdleConnection:
    """A connection that is never overdue."""

    def check_timeout(self, now: float) -> None:
        pass


def build_table(**limits) -> ConnectionTable:
    return ConnectionTable(ConnectionLimits(**limits))


def are_refused(table: ConnectionTable, *clients: str | None) -> list[bool]:
    return [table.add(IdleConnection(), client) is not None for client in clients]


async def test_connections_beyond_the_limit_are_refused():
    assert are_refused(build_table(max_connections=2), *["192.0.2.1"] * 3) == [
        False,
        False,
        True,
    ]


async def test_a_closed_connection_makes_room():
    table = build_table(max_connections=1)
    first = IdleConnection()
    assert table.add(first, "192.0.2.1") is None
    refused = IdleConnection()
    assert table.add(refused, "192.0.2.1") is not None
    table.discard(first)
    table.discard(refused)
    assert len(table) == 0
    assert table.add(IdleConnection(), "192.0.2.1") is None


async def test_refused_connections_do_not_fill_the_limit():
    table = build_table(max_connections=1)
    first = IdleConnection()
    table.add(first, None)
    assert are_refused(table, None, None) == [True, True]
    table.discard(first)
    assert table.add(IdleConnection(), None) is None


async def test_refused_connections_have_a_reserve():
    table = build_table(max_connections=1, reserve=2)
    are_refused(table, *[None] * 3)
    assert not table.is_beyond_reserve()
    are_refused(table, None)
    assert table.is_beyond_reserve()


@pytest.mark.parametrize(
    ("clients", "refused"),
    [
        (["192.0.2.1", "192.0.2.1"], [False, True]),
        (["192.0.2.1", "192.0.2.2"], [False, False]),
        (["192.0.2.1", "::ffff:192.0.2.1"], [False, True]),
        (["2001:db8::1", "2001:db8::ffff:2"], [False, True]),  # one network of 64 bits
        (["2001:db8::1", "2001:db8:0:1::1"], [False, False]),
        (["fe80::1%eth0", "fe80::2%eth0"], [False, True]),
        (["127.0.0.1", "127.0.0.1"], [False, False]),
        (["::1", "::1"], [False, False]),
        (["::ffff:127.0.0.1"] * 2, [False, False]),
        ([None, None], [False, False]),
        (["", ""], [False, False]),
    ],
)
async def test_connections_are_counted_by_address(clients, refused):
    assert are_refused(build_table(max_connections_per_address=1), *clients) == refused


@pytest.mark.parametrize(
    ("proxies", "client"),
    [
        (("10.0.0.0/8",), "10.1.2.3"),
        (("10.0.0.5/8",), "10.1.2.3"),
        (("192.0.2.9", "10.0.0.0/8"), "192.0.2.9"),
        (("10.0.0.0/8",), "::ffff:10.1.2.3"),
        (("2001:db8::/32",), "2001:db8:1::1"),
    ],
)
async def test_trusted_proxies_are_not_counted(proxies, client):
    server = ServerConfig(max_connections_per_address=1, trusted_proxies=proxies)
    table = ConnectionTable(ConnectionLimits.from_config(server))
    assert are_refused(table, client, client) == [False, False]
    assert are_refused(table, "192.0.2.1", "192.0.2.1") == [False, True]


async def test_null_limit_per_address_is_unlimited():
    server = ServerConfig(max_connections_per_address=None)
    assert not any(
        are_refused(
            ConnectionTable(ConnectionLimits.from_config(server)), *["192.0.2.1"] * 500
        )
    )


async def test_refusal_mentions_trusted_proxies():
    table = build_table(max_connections_per_address=1)
    table.add(IdleConnection(), "192.0.2.1")
    refusal = table.add(IdleConnection(), "192.0.2.1")
    assert refusal is not None
    assert (refusal.status, refusal.retry_after_seconds) == (503, 2)
    assert "192.0.2.1" in refusal.detail
    assert "server.trusted_proxies" in refusal.detail
    assert "server." not in refusal.message


async def test_protocol_switch_is_counted_once():
    table = build_table(max_connections=10, max_connections_per_address=1)
    first, upgraded = IdleConnection(), IdleConnection()
    table.add(first, "192.0.2.1")
    table.replace(first, upgraded)
    assert len(table) == 1
    table.discard(first)  # Has no effect: the connection was replaced.
    assert table.add(IdleConnection(), "192.0.2.1") is not None
    table.discard(upgraded)
    assert table.add(IdleConnection(), "192.0.2.1") is None


def test_burst_of_refusals_is_logged_in_one_line(caplog):
    burst = LogBurst("%d connections refused: %s")
    for second in range(50):
        burst.record(1000.0 + second, f"number {second}")
    burst.log_if_due(1000.0 + connections.LOG_SECONDS)
    burst.log_if_due(1000.0 + 2 * connections.LOG_SECONDS)
    assert [record.getMessage() for record in caplog.records] == [
        "1 connections refused: number 0",
        "49 connections refused: number 49",
    ]
