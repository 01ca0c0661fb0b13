"""A runner at work for synthetic users, and a provider that plays them."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from config import live
from core.ids import UserId
from providers import sync_bridge
from smoke.config import SMOKE_TESTS
from smoke.evaluation import verdicts
from smoke.execution import run_lifecycle
from smoke.models import SmokeRun
from tasks.worker.runner import TaskRunner
from testing.scripted_provider import FakeProvider
from tests.smoke.stage import STAGE, Cast
from tests.tasks.conftest import PATIENCE_SECONDS, wait_until


class Holding:
    """A runner that holds the conversations of a test, and no others'."""

    def __init__(self) -> None:
        self._users: list[UserId] = []
        self._runner = TaskRunner(lambda: 4, users=self._users)
        self._running = sync_bridge.start(self._runner.run())

    def launch(self, name: str = "plums", **options: Any) -> list[SmokeRun]:
        launched = queued(name, **options)
        self.take(*launched)
        return launched

    def take(self, *launched: SmokeRun) -> None:
        """Have runs be held that are only queued until now."""
        self._users += [UserId(run.user_id) for run in launched]
        self.kick()

    def kick(self) -> None:
        sync_bridge.run_sync(self._kick(), timeout_seconds=PATIENCE_SECONDS)

    async def _kick(self) -> None:
        self._runner.kick()

    @property
    def is_idle(self) -> bool:
        return not self._runner._running

    def closed(self, run: SmokeRun) -> SmokeRun:
        """Return a run once it is closed."""

        def is_closed() -> bool:
            self.kick()
            verdicts.close_if_judged(run.pk)
            run.refresh_from_db()
            return run.finished_at is not None

        wait_until(is_closed)
        return run

    def hold(self, name: str = "plums", **options: Any) -> SmokeRun:
        """Hold one conversation to its verdict."""
        (run,) = self.launch(name, **options)
        return self.closed(run)

    def stop(self) -> None:
        sync_bridge.run_sync(self._runner.stop(2), timeout_seconds=PATIENCE_SECONDS)
        self._running.result(PATIENCE_SECONDS)


def queued(name: str = "plums", **options: Any) -> list[SmokeRun]:
    """Launch a test without anybody to hold it."""
    test = live.current().get(SMOKE_TESTS)[name]
    return run_lifecycle.launch_test(test, origin="command", **options)


@pytest.fixture
def cast(server: str, configure: Callable[[str], None], fake: FakeProvider) -> Cast:
    """Who plays, and where."""
    configure(STAGE)
    return Cast(fake)


@pytest.fixture
def holding(cast: Cast) -> Iterator[Holding]:
    """A runner at work."""
    holding = Holding()
    yield holding
    holding.stop()
