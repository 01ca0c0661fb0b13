"""Values of prometheus-client in this process's files.

As its `MultiProcessValue`, in the same format, which its `MultiProcessCollector` reads.
That one takes the directory from an environment variable, which MCP servers and other
child processes would inherit, and names files after process ids.
"""

from collections.abc import Callable
from threading import Lock
from typing import Any

from prometheus_client.mmap_dict import MmapedDict, mmap_key

from telemetry.metrics.process_files import ProcessFiles


class ValueFiles:
    """The open files of one process, by kind of metric."""

    def __init__(self, files: ProcessFiles) -> None:
        self._files = files
        self._opened: dict[str, MmapedDict] = {}

    def find(self, kind: str) -> MmapedDict:
        """Return the file for a kind; raises OSError if the disk is full."""
        file = self._opened.get(kind)
        if file is None:
            path = str(self._files.allocate(kind))
            file = self._opened[kind] = MmapedDict(path)
        return file

    def close(self) -> None:
        for file in self._opened.values():
            file.close()


def value_class(files: ValueFiles) -> type[Any]:
    """Return the class that prometheus-client makes values of."""
    lock = Lock()

    class FileValue:
        """One number; threads share it."""

        _multiprocess = True

        def __init__(
            self,
            kind: str,
            metric_name: str,
            name: str,
            labelnames: Any,
            labelvalues: Any,
            help_text: str,
            multiprocess_mode: str = "",
            **_: Any,
        ) -> None:
            suffix = f"_{multiprocess_mode}" if multiprocess_mode else ""
            with lock:
                file = files.find(f"{kind}{suffix}")
                self._write: Callable[[str, float, float], None] = file.write_value
                self._key = mmap_key(
                    metric_name, name, labelnames, labelvalues, help_text
                )
                self._value, _at = file.read_value(self._key)

        def inc(self, amount: float) -> None:
            with lock:
                self._value += amount
                self._write(self._key, self._value, 0.0)

        def set(self, value: float, timestamp: float | None = None) -> None:
            with lock:
                self._value = value
                self._write(self._key, value, 0.0)

        def get(self) -> float:
            value: float = self._value
            return value

        def get_exemplar(self) -> None:
            """Return none: they are not in this format (`exemplars`)."""

    return FileValue
