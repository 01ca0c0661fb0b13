"""A large JSON file that is a list, read entry by entry within limits."""

from collections.abc import Iterator
from typing import Any, BinaryIO

import ijson

from imports.errors import SourceUnreadable

MAX_FILE_BYTES = 8 * 1024**3
MAX_ENTRY_BYTES = 64 * 1024**2
MAX_DEPTH = 100
"""Of brackets in brackets; real exports have about ten."""
OPENING = frozenset({"start_array", "start_map"})
CLOSING = frozenset({"end_array", "end_map"})


class _CountingReader:
    """Counts what the parser reads: it holds a whole text before it returns one."""

    def __init__(self, file: BinaryIO, name: str) -> None:
        self._file = file
        self.name = name
        self.position = 0
        self.last_event_at = 0

    def read(self, size: int = -1) -> bytes:
        data = self._file.read(size)
        self.position += len(data)
        if self.position > MAX_FILE_BYTES:
            raise self.error(f"is larger than {MAX_FILE_BYTES:,} bytes")
        if self.position - self.last_event_at > MAX_ENTRY_BYTES:
            raise self.error(f"has a text of more than {MAX_ENTRY_BYTES:,} bytes")
        return data

    def error(self, problem: str) -> SourceUnreadable:
        return SourceUnreadable(
            f"{self.name} {problem}, near byte {self.position:,}; export it again, or "
            "remove that place from it"
        )


def read_list(file: BinaryIO, name: str) -> Iterator[Any]:
    """Yield the entries of a list; None for one that is too large.

    Raises `SourceUnreadable`, which names the file and the place.
    """
    reader = _CountingReader(file, name)
    try:
        yield from _read_entries(reader)
    except ijson.JSONError as exc:
        reason = str(exc).splitlines()[0] if str(exc) else "it ends too early"
        raise reader.error(f"is not valid JSON ({reason})") from exc


def _read_entries(reader: _CountingReader) -> Iterator[Any]:
    depth, begin = 0, 0
    builder: ijson.ObjectBuilder | None = None
    for event, value in ijson.basic_parse(reader, use_float=True):
        reader.last_event_at = reader.position
        if not depth:
            if event != "start_array":
                raise reader.error("is not a list of conversations")
            depth = 1
            continue
        if depth == 1:
            if event in CLOSING:
                depth = 0
                continue
            builder, begin = ijson.ObjectBuilder(), reader.position
        depth += (event in OPENING) - (event in CLOSING)
        if depth > MAX_DEPTH:
            raise reader.error(f"has more than {MAX_DEPTH} brackets in brackets")
        if reader.position - begin > MAX_ENTRY_BYTES:
            # Its rest is read, but not stored.
            builder = None
        if builder is not None:
            builder.event(event, value)
        if depth == 1:
            yield None if builder is None else builder.value
