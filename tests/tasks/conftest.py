"""A worker's runner in the process of the tests."""

import time
from collections.abc import Callable, Collection, Iterator
from concurrent.futures import Future

import pytest

from access.users import identity
from core.ids import UserId
from providers import sync_bridge
from tasks.models import Task
from tasks.queue.task_spec import TaskSpec
from tasks.worker.executor import TaskExecutor

TIMEOUT_SECONDS = 60
"""Time limit of steps that are immediate on an idle machine."""


class RunnerHarness:
    """A worker's executor, which receives its permits without a broker."""

    def __init__(
        self,
        users: Collection[UserId],
        *,
        slots: int = 4,
        kinds: Collection[str] = ("agent", "judge", "shadow", "smoke"),
    ) -> None:
        self.slots = slots
        self._kinds = kinds
        self.executor = TaskExecutor(
            self._run_next, limit=lambda group: self.slots, users=users
        )
        self._permits: list[Future[None]] = []

    def _run_next(self, kind: str) -> None:
        self._permits.append(sync_bridge.start(self._run_all(kind)))

    async def _run_all(self, kind: str) -> None:
        for name in await self.executor.run_next(kind):
            self._run_next(name)

    def check_queue(self) -> None:
        """Publish a permit of each kind."""
        for kind in self._kinds:
            self._run_next(kind)

    def stop(self) -> None:
        sync_bridge.run_sync(self.executor.stop(2), timeout_seconds=TIMEOUT_SECONDS)
        for permit in self._permits:
            permit.result(TIMEOUT_SECONDS)

    @property
    def is_idle(self) -> bool:
        return self.executor.is_idle

    def run_task(self, spec: TaskSpec) -> Task:
        """Enqueue a task, and return its row once it has ended."""
        (task,) = Task.objects.enqueue([spec])
        self.check_queue()
        return self.wait_for_end(task)

    def wait_for_end(self, task: Task) -> Task:
        """Return a task's row once it has ended, its retries included."""

        def has_ended(row: Task) -> bool:
            if row.state == "queued":
                self.check_queue()
            return row.finished_at is not None

        return wait_for(task, has_ended)


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
    harness = RunnerHarness([user_id], slots=getattr(request, "param", 4))
    yield harness
    harness.stop()


@pytest.fixture
def user_id(user: str) -> UserId:
    return identity.derive_user_id(user)
