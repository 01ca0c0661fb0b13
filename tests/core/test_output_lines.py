"""Output of programs, of any content and length, in lines."""

import pytest

from core.child_processes.process_group import LineSplitter


def split(*pieces: bytes, max_bytes: int = 100) -> list[bytes]:
    """Return the lines of pieces of output."""
    lines: list[bytes] = []
    splitter = LineSplitter(lines.append, max_bytes)
    for piece in pieces:
        splitter.feed(piece)
        assert len(splitter._rest) <= max_bytes
    splitter.finish()
    return lines


@pytest.mark.parametrize(
    ("pieces", "lines"),
    [
        ([b"one\ntwo\n"], [b"one", b"two"]),
        ([b"on", b"e\nt", b"wo"], [b"one", b"two"]),
        ([b"\n\n"], [b"", b""]),
        ([b"\xff\0\x1b[31m\r\n"], [b"\xff\0\x1b[31m\r"]),
        ([], []),
    ],
    ids=["whole", "pieces", "empty", "binary", "none"],
)
def test_lines_are_split_in_any_chunking(
    pieces: list[bytes], lines: list[bytes]
) -> None:
    assert split(*pieces) == lines


def test_endless_line_takes_little_memory() -> None:
    assert split(*[b"x" * 8] * 50, b"\nnext\n", max_bytes=10) == [b"x" * 10, b"next"]
