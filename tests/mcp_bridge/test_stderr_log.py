"""The log of a child's standard error."""

import asyncio
import logging

import pytest

from core.child_processes import process_group
from mcp_bridge.client.stdio import _StderrLog
from mcp_bridge.client.target import ServerTarget
from tests.mcp_bridge.conftest import HERE, raw

HUSH = "q7Vd2mXw9Lr4TzK8bNf3HcYs"
FIRST, SECOND = f"{HUSH}-first", f"{HUSH}-second"
KEY = f"-----BEGIN KEY-----\n{FIRST}\n{SECOND}\n-----END KEY-----"


@pytest.fixture(autouse=True)
def _whole_log(caplog):
    caplog.set_level(logging.DEBUG, "mcp_bridge")


def stderr_log(**env: str) -> _StderrLog:
    return _StderrLog(ServerTarget("it", raw(env=env), HERE))


async def feed(log: _StderrLog, *pieces: bytes) -> None:
    stream = asyncio.StreamReader()
    for piece in pieces:
        stream.feed_data(piece)
    stream.feed_eof()
    await process_group._read_lines(stream, log.add)


def test_long_line_is_truncated(caplog):
    stderr_log().add(b"x" * 600)
    assert caplog.messages == [f"mcp server 'it' stderr: {'x' * 500}"]


def test_truncated_secret_is_not_logged(caplog):
    stderr_log(KEY=HUSH).add(b"x" * 490 + HUSH.encode())
    assert HUSH[:4] not in caplog.text


def test_lines_of_a_multi_line_secret_are_not_logged(caplog):
    log = stderr_log(KEY=KEY)
    for line in KEY.encode().split(b"\n"):
        log.add(b"read " + line)
    assert HUSH not in caplog.text
    assert len(caplog.messages) == 4


def test_overlapping_secrets_are_both_masked(caplog):
    stderr_log(A=HUSH, B=FIRST).add(b"it is " + FIRST.encode())
    assert caplog.messages == ["mcp server 'it' stderr: it is ***"]


async def test_endless_line_is_logged_once(caplog):
    log = stderr_log(KEY=HUSH)
    await feed(log, *[f"{HUSH} ".encode() * 4096] * 10, b"\nnext")
    assert len(caplog.messages) == 2
    assert HUSH not in caplog.text
    assert caplog.messages[1] == "mcp server 'it' stderr: next"
