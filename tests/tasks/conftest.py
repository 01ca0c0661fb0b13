"""A worker's runner within the process of the tests."""

import time
from collections.abc import Callable, Iterator

import pytest

from access.users import identity
from core.ids import UserId
from providers import sync_bridge
from tasks.models import Task
from tasks.queue import lifecycle
from tasks.queue.lifecycle import TaskSpec
from tasks.worker.runner import TaskRunner

PATIENCE_SECONDS = 60
"""What happens at once where nothing else runs may take long on a busy machine."""


class Working:
    """A runner, and what it did."""

    def __init__(self, runner: TaskRunner) -> None:
        self._runner = runner

    def kick(self) -> None:
        sync_bridge.run_sync(self._kick(), timeout_seconds=PATIENCE_SECONDS)

    async def _kick(self) -> None:
        self._runner.kick()

    @property
    def is_idle(self) -> bool:
        return not self._runner._in_hand

    def do(self, draft: TaskSpec) -> Task:
        """Add a task and return its row once it is closed."""
        (task,) = lifecycle.enqueue([draft])
        self.kick()
        return self.closed(task)

    def closed(self, task: Task) -> Task:
        return wait_for(task, lambda row: row.finished_at is not None)


def wait_for(task: Task, is_so: Callable[[Task], bool]) -> Task:
    """Return a task's row as soon as something is true of it."""
    wait_until(lambda: is_so(Task.objects.get(pk=task.pk)))
    return Task.objects.get(pk=task.pk)


def wait_until(is_so: Callable[[], bool]) -> None:
    until = time.monotonic() + PATIENCE_SECONDS
    while not is_so():
        if time.monotonic() > until:
            raise TimeoutError
        time.sleep(0.01)


@pytest.fixture
def working(
    server: str, user_id: UserId, request: pytest.FixtureRequest
) -> Iterator[Working]:
    """A runner at work for this test's user, with the standard configuration.

    Its parameter, if it has one, is how many tasks it does at a time.
    """
    slots = getattr(request, "param", 4)
    runner = TaskRunner(lambda: slots, users=[user_id])
    running = sync_bridge.start(runner.run())
    yield Working(runner)
    sync_bridge.run_sync(runner.stop(2), timeout_seconds=PATIENCE_SECONDS)
    running.result(PATIENCE_SECONDS)


@pytest.fixture
def user_id(user: str) -> UserId:
    return identity.derive_user_id(user)
