"""Working memory: the newest messages of the threads this process served last.

Messages are only ever added, and a thread's row says how many it has. So what is held
here is right whenever that row says the same, whichever process wrote since; where it
says more, only what is new is read.
"""

import threading
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass

from core.ids import UserId
from core.messages import Message

MAX_BYTES = 64 * 1024 * 1024
"""Of text and attachments in one process; the threads used longest ago give way."""
ROW_BYTES = 400
"""What a message costs besides its text."""

ThreadKey = tuple[UserId, str]


@dataclass(frozen=True, slots=True)
class CachedMessage:
    """A stored message and what it weighs."""

    position: int
    tokens: int
    size: int
    """Characters of its text and attachments."""
    message: Message


@dataclass(frozen=True, slots=True)
class CachedThread:
    """The newest messages of a thread, oldest first, without a gap."""

    thread_id: int
    length: int
    """The thread's when they were the newest."""
    messages: tuple[CachedMessage, ...]

    def extended(
        self, lines: Sequence[CachedMessage], length: int, cap: int
    ) -> "CachedThread":
        """Return the newest `cap` of these messages and those that followed them."""
        kept = (*self.messages, *lines)
        return CachedThread(self.thread_id, length, kept[-cap:] if cap else ())

    @property
    def size(self) -> int:
        return sum(line.size + ROW_BYTES for line in self.messages)


class MessageCache:
    """Threads by user and name; safe to use from several threads."""

    def __init__(self, max_bytes: int = MAX_BYTES) -> None:
        self._max_bytes = max_bytes
        self._threads: OrderedDict[ThreadKey, tuple[CachedThread, int]] = OrderedDict()
        self._bytes = 0
        self._lock = threading.Lock()

    def get(self, key: ThreadKey) -> CachedThread | None:
        """Return what is held of a thread; its row must still say the same."""
        with self._lock:
            found = self._threads.get(key)
            if found is None:
                return None
            self._threads.move_to_end(key)
            return found[0]

    def put(self, key: ThreadKey, held: CachedThread) -> None:
        """Hold a thread's newest messages in place of what was held of it."""
        size = held.size
        with self._lock:
            self._remove(key)
            if size > self._max_bytes:
                return
            self._threads[key] = held, size
            self._bytes += size
            while self._bytes > self._max_bytes:
                self._remove(next(iter(self._threads)))

    def drop(self, key: ThreadKey) -> None:
        """Hold nothing of a thread any more."""
        with self._lock:
            self._remove(key)

    def drop_user(self, user_id: UserId) -> None:
        """Hold nothing of a user any more."""
        with self._lock:
            for key in [key for key in self._threads if key[0] == user_id]:
                self._remove(key)

    def _remove(self, key: ThreadKey) -> None:
        found = self._threads.pop(key, None)
        if found is not None:
            self._bytes -= found[1]


MESSAGE_CACHE = MessageCache()
"""This process's."""
