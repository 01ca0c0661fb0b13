"""Checks that go on after their turn: its client left, or something else ended it."""

import asyncio
from collections.abc import Coroutine
from typing import Any

_running: set[asyncio.Task[None]] = set()


def run_later(finish: Coroutine[Any, Any, None]) -> None:
    """Run what waits for checks and stores their incidents; do not wait for it."""
    task = asyncio.create_task(finish)
    _running.add(task)
    task.add_done_callback(_running.discard)


async def wait_for_all() -> None:
    """Wait for this event loop's checks; called when the server stops.

    Each ends within its own time limit.
    """
    loop = asyncio.get_running_loop()
    while own := [each for each in _running if each.get_loop() is loop]:
        await asyncio.wait(own)
