"""A worker's runner in the process of the tests."""

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

TIMEOUT_SECONDS = 60
"""Time limit of steps that are immediate on an idle machine."""


class RunnerHarness:
    """A task runner, with helpers that wait for tasks."""

    def __init__(self, runner: TaskRunner) -> None:
        self._runner = runner

    def check_queue(self) -> None:
        sync_bridge.run_sync(self._check_queue(), timeout_seconds=TIMEOUT_SECONDS)

    async def _check_queue(self) -> None:
        self._runner.check_queue()

    @property
    def is_idle(self) -> bool:
        return not self._runner._running

    def run_task(self, spec: TaskSpec) -> Task:
        """Enqueue a task, and return its row once it has ended."""
        (task,) = lifecycle.enqueue([spec])
        self.check_queue()
        return self.wait_for_end(task)

    def wait_for_end(self, task: Task) -> Task:
        return wait_for(task, lambda row: row.finished_at is not None)


def wait_for(task: Task, condition: Callable[[Task], bool]) -> Task:
    """Return a task's row once it meets the condition."""
    wait_until(lambda: condition(Task.objects.get(pk=task.pk)))
    return Task.objects.get(pk=task.pk)


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + TIMEOUT_SECONDS
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError
        time.sleep(0.01)


@pytest.fixture
def task_runner(
    server: str, user_id: UserId, request: pytest.FixtureRequest
) -> Iterator[RunnerHarness]:
    """A runner for the tasks of this test's user, with the standard configuration.

    Its parameter, if any, is the number of slots.
    """
    slots = getattr(request, "param", 4)
    runner = TaskRunner(lambda: slots, users=[user_id])
    running = sync_bridge.start(runner.run())
    yield RunnerHarness(runner)
    sync_bridge.run_sync(runner.stop(2), timeout_seconds=TIMEOUT_SECONDS)
    running.result(TIMEOUT_SECONDS)


@pytest.fixture
def user_id(user: str) -> UserId:
    return identity.derive_user_id(user)
