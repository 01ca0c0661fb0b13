"""Values of prometheus-client in this process's files.

As its `MultiProcessValue`, in the same format, which its `MultiProcessCollector` reads.
That one takes the directory from an environment variable, which MCP servers and other
child processes would inherit, names files after process ids, and packs and looks up
each value that it writes.
"""

from threading import Lock
from typing import Any, NamedTuple

from prometheus_client.mmap_dict import MmapedDict, mmap_key

from telemetry.metrics.process_files import ProcessFiles


class ValueFile(NamedTuple):
    """A file, and its content as numbers."""

    entries: MmapedDict
    numbers: "memoryview[float]"


class ValueFiles:
    """The open files of one process, by kind of metric."""

    def __init__(self, files: ProcessFiles) -> None:
        self._files = files
        self._opened: dict[str, ValueFile] = {}

    def find(self, kind: str) -> ValueFile:
        """Return the file for a kind; raises OSError if the disk is full."""
        file = self._opened.get(kind)
        if file is None:
            entries = MmapedDict(str(self._files.allocate(kind)))
            # The map stays: a file has its full size from the beginning.
            file = ValueFile(entries, memoryview(entries._m).cast("d"))
            self._opened[kind] = file
        return file

    def close(self) -> None:
        for file in self._opened.values():
            file.numbers.release()
            file.entries.close()


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
            key = mmap_key(metric_name, name, labelnames, labelvalues, help_text)
            with lock:
                file = files.find(f"{kind}{suffix}")
                file.entries.read_value(key)  # Adds it.
                self._numbers = file.numbers
                self._index = file.entries._positions[key] // file.numbers.itemsize

        def inc(self, amount: float) -> None:
            with lock:
                self._numbers[self._index] += amount

        def set(self, value: float, timestamp: float | None = None) -> None:
            self._numbers[self._index] = value

        def get(self) -> float:
            value: float = self._numbers[self._index]
            return value

        def get_exemplar(self) -> None:
            """Return none: they are not in this format (`exemplars`)."""

    return FileValue
