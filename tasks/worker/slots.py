"""Limits how many tasks a process runs at a time, and keeps the permits over them.

Kinds of a group share its slots. Background kinds leave one slot of two or more to the
others, because they may hang, for example on a judge's model, while a user waits.
"""

from collections import Counter
from collections.abc import Callable, Sequence

from django.conf import settings

from config import live
from tasks.config import TASKS
from tasks.queue import task_kinds
from tasks.queue.task_kinds import TaskKind


def configured_limit(group: str) -> int:
    """Return the number of slots of a group, from the current configuration."""
    tasks = live.current().get(TASKS)
    if group == "memory":
        return settings.COULISSE_WORKER_CONCURRENCY or settings.COULISSE_WORKER_THREADS
    if not tasks.enabled:
        return 0
    return settings.COULISSE_WORKER_CONCURRENCY or tasks.workers


def command_limit(group: str) -> int:
    """Return the number of slots for the tasks of a command, also if tasks are off."""
    return live.current().get(TASKS).workers


class Slots:
    """The slots of a process, and the kinds with more work than slots.

    A permit that this process has published counts as a used slot until it is received,
    so that a full queue costs one permit per task. Only one thread uses the slots.
    """

    def __init__(self, limit: Callable[[str], int]) -> None:
        """`limit` returns the slots of a group; it is called each time, so that edits
        take effect.
        """
        self._limit = limit
        self._used: Counter[str] = Counter()
        self._requested: Counter[str] = Counter()
        self._backlog: set[str] = set()

    def take(self, kind: TaskKind) -> bool:
        """Take a slot for a received permit; without one, the kind has a backlog."""
        self._requested[kind.name] = max(self._requested[kind.name] - 1, 0)
        if not self._has_free(kind, self._used):
            self._backlog.add(kind.name)
            return False
        self._used[kind.name] += 1
        return True

    def give_back(self, kind: TaskKind) -> None:
        self._used[kind.name] -= 1

    def set_backlog(self, kind: TaskKind, *, has_backlog: bool) -> None:
        """Note whether more tasks of a kind are due."""
        if has_backlog:
            self._backlog.add(kind.name)
        else:
            self._backlog.discard(kind.name)

    @property
    def has_backlog(self) -> bool:
        return bool(self._backlog)

    def request(self, kind: TaskKind) -> bool:
        """Return whether to publish a permit of a kind, unless one is on its way."""
        if self._requested[kind.name]:
            return False
        return bool(self._request([kind]))

    def request_next(self) -> list[str]:
        """Return the kinds with a backlog to publish a permit of, one per group.

        Kinds that users wait for come first.
        """
        waiting = [kind for name in self._backlog if (kind := task_kinds.get(name))]
        waiting.sort(key=lambda kind: (kind.is_background, kind.name))
        return self._request(waiting)

    def forget_requests(self) -> None:
        """Forget the permits on their way: other workers may have received them."""
        self._requested.clear()

    def _request(self, kinds: Sequence[TaskKind]) -> list[str]:
        used = self._used + self._requested
        free = [kind for kind in kinds if self._has_free(kind, used)]
        names = list({kind.group: kind.name for kind in free[::-1]}.values())
        self._requested.update(names)
        return names

    def _has_free(self, kind: TaskKind, counts: Counter[str]) -> bool:
        limit = self._limit(kind.group)
        used = [
            (other, count)
            for name, count in counts.items()
            if (other := task_kinds.get(name)) and other.group == kind.group
        ]
        if sum(count for _, count in used) >= limit:
            return False
        background = sum(count for other, count in used if other.is_background)
        return not kind.is_background or background < max(limit - 1, 1)
