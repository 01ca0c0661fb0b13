"""A task runner for smoke runs, and scripted models for both sides."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from config import live
from core.ids import UserId
from smoke.config import SMOKE_TESTS
from smoke.models import SmokeRun
from testing.scripted_provider import FakeProvider
from tests.smoke.scripted_models import SMOKE_CONFIG, ScriptedModels
from tests.tasks.conftest import RunnerHarness, wait_until


class RunWorker(RunnerHarness):
    """A task runner that executes only the runs passed to it."""

    def __init__(self) -> None:
        self._users: list[UserId] = []
        super().__init__(self._users)

    def launch(self, name: str = "plums", **options: Any) -> list[SmokeRun]:
        launched = launch_queued(name, **options)
        self.accept(*launched)
        return launched

    def accept(self, *launched: SmokeRun) -> None:
        """Let the runner execute queued runs."""
        self._users += [UserId(run.user_id) for run in launched]
        self.check_queue()

    def wait_until_closed(self, run: SmokeRun) -> SmokeRun:
        """Return a run once it is closed."""

        def is_closed() -> bool:
            self.check_queue()
            run.close_if_judged()
            run.refresh_from_db()
            return run.finished_at is not None

        wait_until(is_closed)
        return run

    def run_test(self, name: str = "plums", **options: Any) -> SmokeRun:
        """Launch a test with one repetition, and return its closed run."""
        (run,) = self.launch(name, **options)
        return self.wait_until_closed(run)


def launch_queued(name: str = "plums", **options: Any) -> list[SmokeRun]:
    """Launch a test without executing it."""
    test = live.current().get(SMOKE_TESTS)[name]
    return SmokeRun.objects.launch(test, origin="command", **options)


@pytest.fixture
def models(
    server: str, configure: Callable[[str], None], fake: FakeProvider
) -> ScriptedModels:
    """The scripted models, with the configuration for them."""
    configure(SMOKE_CONFIG)
    return ScriptedModels(fake)


@pytest.fixture
def worker(models: ScriptedModels) -> Iterator[RunWorker]:
    """A running worker."""
    worker = RunWorker()
    yield worker
    worker.stop()
