"""Keeps the children of one server running, and ends them in the right order."""

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from functools import partial

from processes.errors import StartFailed
from processes.supervision.child import Child, ChildSpec
from processes.supervision.stop_signals import StopSignals

logger = logging.getLogger(__name__)

START_ATTEMPTS = 2
"""The start fails when a required child ends this often before the server answers."""
QUIET_SECONDS = 1.0
"""A stop that takes longer says what it waits for."""
START_POLL_SECONDS = 0.1
NEED_POLL_SECONDS = 5.0
"""How long a new need for a child goes unnoticed."""


class Supervisor:
    """Starts the children in order, and stops them."""

    def __init__(
        self, specs: Sequence[ChildSpec], *, changed: Callable[["Supervisor"], None]
    ) -> None:
        self._specs = specs
        self.children: list[Child] = []
        self.is_serving = False
        self.stops_by = 0.0
        """When everything has ended, in epoch seconds; 0 unless it is stopping."""
        self._changed = partial(changed, self)
        """Called whenever a child or `is_serving` changes."""

    def serves(self) -> bool:
        """Return whether a web process runs, or starts."""
        return any(
            child.is_running for child in self.children if child.spec.serves_clients
        )

    async def watch(
        self,
        signals: StopSignals,
        *,
        is_answering: Callable[[], bool],
        announce: Callable[[], None],
        limit_seconds: float | None,
    ) -> None:
        """Run the children until a stop is requested.

        `is_answering` returns whether the server answers; it is called until it does,
        then `announce` is, once. Both run in threads. Raises `StartFailed` if a child
        keeps ending before that, or after the limit.
        """
        starting = asyncio.create_task(
            self._start(is_answering, announce, limit_seconds)
        )
        stopping = asyncio.create_task(signals.requested.wait())
        await asyncio.wait({starting, stopping}, return_when=asyncio.FIRST_COMPLETED)
        if starting.done():
            await starting
            await stopping
        starting.cancel()

    async def stop(
        self, signals: StopSignals, *, seconds: float, last_seconds: float
    ) -> None:
        """Stop web, worker and beat, then the children that they depend on.

        Kills those that take longer than `seconds` or `last_seconds`, and all at once
        after a second signal.
        """
        passed = time.monotonic() - (signals.requested_at or time.monotonic())
        remaining = max(0.0, seconds - passed)
        self.stops_by = time.time() + remaining + last_seconds
        self._changed()
        beside = [
            asyncio.create_task(self._kill_when_urgent(signals)),
            asyncio.create_task(self._explain_wait(remaining)),
        ]
        for outlives_web, limit in ((False, remaining), (True, last_seconds)):
            await asyncio.gather(
                *(
                    child.stop(0 if signals.is_urgent.is_set() else limit)
                    for child in self.children
                    if child.spec.outlives_web is outlives_web
                )
            )
        for task in beside:
            task.cancel()

    async def _explain_wait(self, seconds: float) -> None:
        await asyncio.sleep(QUIET_SECONDS)
        names = [
            child.spec.name
            for child in self.children
            if child.is_running and not child.spec.outlives_web
        ]
        if names:
            logger.info(
                "stopping: %s may finish open work, for %d s at most; "
                "a second signal ends it at once",
                ", ".join(names),
                seconds,
            )

    async def _start(
        self,
        is_answering: Callable[[], bool],
        announce: Callable[[], None],
        limit_seconds: float | None,
    ) -> None:
        waiting = [spec for spec in self._specs if spec.follows_web]
        for spec in self._specs:
            if not spec.follows_web:
                self._start_child(spec)
        try:
            async with asyncio.timeout(limit_seconds):
                await self._wait_until_answering(is_answering)
        except TimeoutError as exc:
            raise StartFailed(
                f"the server did not answer within {limit_seconds:g} s"
            ) from exc
        self.is_serving = True
        self._changed()
        await asyncio.to_thread(announce)
        while waiting:
            for spec in [spec for spec in waiting if spec.is_needed()]:
                waiting.remove(spec)
                self._start_child(spec)
            await asyncio.sleep(NEED_POLL_SECONDS)

    def _start_child(self, spec: ChildSpec) -> None:
        child = Child(spec, changed=self._changed)
        self.children.append(child)
        child.start()

    async def _wait_until_answering(self, is_answering: Callable[[], bool]) -> None:
        required = [child for child in self.children if child.spec.is_required]
        while True:
            for child in required:
                if child.record.restarts >= START_ATTEMPTS:
                    raise StartFailed(
                        f"{child.spec.name} ended {child.record.restarts} times before "
                        "the server answered; see the log lines above"
                    )
            are_running = all(child.record.state == "running" for child in required)
            if are_running and await asyncio.to_thread(is_answering):
                return
            await asyncio.sleep(START_POLL_SECONDS)

    async def _kill_when_urgent(self, signals: StopSignals) -> None:
        await signals.is_urgent.wait()
        for child in self.children:
            child.kill()
