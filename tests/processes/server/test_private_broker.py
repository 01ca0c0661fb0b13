"""The private broker: Valkey on a socket that only this user can open."""

import asyncio
import os
import signal
from pathlib import Path

import pytest
import redis

from processes.errors import StateUnwritable
from processes.server import background_processes, private_broker
from processes.supervision.child import Child
from tests.processes.conftest import TIMEOUT_SECONDS


@pytest.fixture
def socket(tmp_path: Path, settings) -> Path:
    settings.COULISSE_STATE_DIR = tmp_path
    settings.COULISSE_BROKER_SOCKET = tmp_path / "broker.sock"
    return settings.COULISSE_BROKER_SOCKET


def answers(socket: Path) -> bool:
    with redis.Redis(unix_socket_path=str(socket)) as client:
        try:
            return bool(client.ping())
        except redis.ConnectionError:
            return False


def mode(socket: Path) -> int:
    return socket.stat().st_mode & 0o777


async def test_broker_is_private_and_replaced_after_a_kill(socket: Path) -> None:
    valkey = background_processes.find_valkey()
    assert valkey is not None
    broker = Child(private_broker.broker_spec(valkey), changed=lambda: None)
    broker.start()
    async with asyncio.timeout(TIMEOUT_SECONDS):
        while not answers(socket):  # noqa: ASYNC110 (nothing announces it)
            await asyncio.sleep(0.02)
        assert mode(socket) == 0o700
        # Its socket stays, and does not stop the next one.
        killed = broker.record.pid
        os.kill(killed, signal.SIGKILL)
        while broker.record.pid in (None, killed) or not answers(socket):  # noqa: ASYNC110
            await asyncio.sleep(0.02)
    assert broker.record.restarts == 1
    await broker.stop(TIMEOUT_SECONDS)
    assert not answers(socket)


def test_broker_refuses_a_directory_of_other_users(socket: Path, settings) -> None:
    private = socket.with_name("private")
    settings.COULISSE_BROKER_SOCKET = private / "broker.sock"
    for _ in range(2):
        private_broker.broker_spec(Path("valkey-server"))
    private.chmod(0o777)
    with pytest.raises(StateUnwritable, match="accessible to other users"):
        private_broker.broker_spec(Path("valkey-server"))
    private.rename(socket.with_name("other"))
    private.symlink_to(socket.with_name("other"))
    with pytest.raises(StateUnwritable, match="accessible to other users"):
        private_broker.broker_spec(Path("valkey-server"))
