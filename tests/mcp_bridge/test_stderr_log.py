"""What a child writes to its standard error, as the log has it."""

import asyncio
import logging
from types import SimpleNamespace

import pytest

from mcp_bridge.client.stdio import _StderrLog
from mcp_bridge.client.target import ServerTarget
from tests.mcp_bridge.conftest import HERE, raw

HUSH = "q7Vd2mXw9Lr4TzK8bNf3HcYs"
FIRST, SECOND = f"{HUSH}-first", f"{HUSH}-second"
KEY = f"-----BEGIN KEY-----\n{FIRST}\n{SECOND}\n-----END KEY-----"


@pytest.fixture(autouse=True)
def _whole_log(caplog):
    caplog.set_level(logging.DEBUG, "mcp_bridge")


def said(**env: str) -> _StderrLog:
    return _StderrLog(ServerTarget("it", raw(env=env), HERE))


async def listened(of: _StderrLog, *pieces: bytes) -> None:
    stream = asyncio.StreamReader()
    for piece in pieces:
        stream.feed_data(piece)
    stream.feed_eof()
    await of.follow(SimpleNamespace(stderr=stream))


def test_long_line_is_truncated(caplog):
    said().add(b"x" * 600)
    assert caplog.messages == [f"mcp server 'it' stderr: {'x' * 500}"]


def test_truncated_secret_is_not_logged(caplog):
    said(KEY=HUSH).add(b"x" * 490 + HUSH.encode())
    assert HUSH[:4] not in caplog.text


def test_lines_of_a_multi_line_secret_are_not_logged(caplog):
    of = said(KEY=KEY)
    for line in KEY.encode().split(b"\n"):
        of.add(b"read " + line)
    assert HUSH not in caplog.text
    assert len(caplog.messages) == 4


def test_overlapping_secrets_are_both_masked(caplog):
    said(A=HUSH, B=FIRST).add(b"it is " + FIRST.encode())
    assert caplog.messages == ["mcp server 'it' stderr: it is ***"]


async def test_endless_line_is_logged_once(caplog):
    of = said(KEY=HUSH)
    await listened(of, *[f"{HUSH} ".encode() * 4096] * 10, b"\nnext")
    assert len(caplog.messages) == 2
    assert HUSH not in caplog.text
    assert caplog.messages[1] == "mcp server 'it' stderr: next"
