"""The message cache: the newest messages of recently used threads.

A thread's row stores the count of its messages, and how often they changed other than
by new ones. So cached messages are valid while the row has the same
numbers, regardless of which process wrote. If only the count is higher, only the new
messages are read.
"""

import threading
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass

from core.ids import UserId
from core.messages import Message

MAX_BYTES = 64 * 1024 * 1024
"""Characters of text and attachments per process; the least recently used threads are
evicted."""
ROW_BYTES = 400
"""The size of a message besides its text."""

ThreadKey = tuple[UserId, str]


@dataclass(frozen=True, slots=True)
class CachedMessage:
    position: int
    tokens: int
    size: int
    """Characters of its text and attachments."""
    message: Message


@dataclass(frozen=True, slots=True)
class CachedThread:
    """The newest messages of a thread's current branch, oldest first."""

    thread_id: int
    revision: int
    """The thread's revision when they were read."""
    length: int
    """The thread's length when they were read."""
    messages: tuple[CachedMessage, ...]

    def extended(
        self, messages: Sequence[CachedMessage], length: int, cap: int
    ) -> "CachedThread":
        """Return the newest `cap` messages of these and the given ones."""
        all_messages = (*self.messages, *messages)
        newest = all_messages[-cap:] if cap else ()
        return CachedThread(self.thread_id, self.revision, length, newest)

    @property
    def size(self) -> int:
        return sum(message.size + ROW_BYTES for message in self.messages)


class MessageCache:
    """Threads by user and name; thread-safe."""

    def __init__(self, max_bytes: int = MAX_BYTES) -> None:
        self._max_bytes = max_bytes
        self._threads: OrderedDict[ThreadKey, tuple[CachedThread, int]] = OrderedDict()
        self._bytes = 0
        self._lock = threading.Lock()

    def get(self, key: ThreadKey) -> CachedThread | None:
        """Return a cached thread; the caller must compare its length with the row."""
        with self._lock:
            found = self._threads.get(key)
            if found is None:
                return None
            self._threads.move_to_end(key)
            return found[0]

    def put(self, key: ThreadKey, thread: CachedThread) -> None:
        """Cache a thread's newest messages, replacing earlier ones."""
        size = thread.size
        with self._lock:
            self._remove(key)
            if size > self._max_bytes:
                return
            self._threads[key] = thread, size
            self._bytes += size
            while self._bytes > self._max_bytes:
                self._remove(next(iter(self._threads)))

    def drop(self, key: ThreadKey) -> None:
        with self._lock:
            self._remove(key)

    def drop_user(self, user_id: UserId) -> None:
        with self._lock:
            for key in [key for key in self._threads if key[0] == user_id]:
                self._remove(key)

    def _remove(self, key: ThreadKey) -> None:
        found = self._threads.pop(key, None)
        if found is not None:
            self._bytes -= found[1]


MESSAGE_CACHE = MessageCache()
"""The cache of this process."""
