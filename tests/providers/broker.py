"""A private Valkey for tests of what processes share."""

import contextlib
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import redis

from processes.server import background_processes


@contextlib.contextmanager
def run_broker(directory: Path) -> Iterator[str]:
    """Run a broker; yield its URL."""
    program = background_processes.find_valkey()
    assert program is not None
    socket = directory / "valkey.sock"
    arguments = ["--port", "0", "--unixsocket", str(socket), "--save", ""]
    process = subprocess.Popen(
        [str(program), *arguments], cwd=directory, stdout=subprocess.DEVNULL
    )
    url = f"unix://{socket}"
    try:
        deadline = time.monotonic() + 60
        while not _answers(url):
            assert time.monotonic() < deadline, "Valkey does not answer"
            time.sleep(0.01)
        yield url
    finally:
        process.kill()
        process.wait()


def _answers(url: str) -> bool:
    with contextlib.suppress(redis.RedisError), redis.Redis.from_url(url) as client:
        return bool(client.ping())
    return False
