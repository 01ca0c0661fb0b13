"""What sidecars print becomes lines of the log, whatever it is and however much."""

import asyncio
import logging
import os
import time
from collections.abc import Callable
from types import SimpleNamespace

import pytest

from core.text import redaction
from processes.supervision import log_pipe
from processes.supervision.log_pipe import OutputLogger, OutputPipe


def read(*pieces: bytes) -> list[bytes]:
    """Return the lines a pipe hands over for what is written to it."""

    async def hear() -> list[bytes]:
        lines: list[bytes] = []
        pipe = OutputPipe(lines.append)
        for piece in pieces:
            os.write(pipe.writer, piece)
            pipe.read()
            assert len(pipe._rest) <= log_pipe.MAX_LINE_BYTES
        os.close(pipe.writer)
        pipe.close()
        return lines

    return asyncio.run(hear())


@pytest.mark.parametrize(
    ("pieces", "lines"),
    [
        ([b"one\ntwo\n"], [b"one", b"two"]),
        ([b"on", b"e\nt", b"wo"], [b"one", b"two"]),
        ([b"\n\n"], [b"", b""]),
        ([b"\xff\0\x1b[31m\r\n"], [b"\xff\0\x1b[31m\r"]),
        ([], []),
    ],
)
def test_lines_are_split_in_any_chunking(pieces, lines) -> None:
    assert read(*pieces) == lines


def test_endless_line_takes_little_memory(monkeypatch) -> None:
    monkeypatch.setattr(log_pipe, "MAX_LINE_BYTES", 10)
    assert read(*[b"x" * 8] * 50, b"\nnext\n") == [b"x" * 10, b"next"]


def of_sidecars(caplog) -> list[logging.LogRecord]:
    """What was logged of them; other parts may speak meanwhile."""
    return [each for each in caplog.records if each.name == "processes.sidecars"]


@pytest.fixture
def tell(caplog) -> Callable[..., list[str]]:
    """Return what is logged of these lines."""

    def tell(*lines: bytes) -> list[str]:
        with caplog.at_level(logging.INFO):
            told = OutputLogger("bridge")
            for line in lines:
                told.add("stdout", line)
            told.log_dropped()
        return [record.getMessage() for record in of_sidecars(caplog)]

    return tell


def test_line_names_its_sidecar(tell, caplog) -> None:
    assert tell(b"hello\r") == ["sidecar=bridge stream=stdout hello"]
    (record,) = of_sidecars(caplog)
    assert record.fields == {"sidecar": "bridge", "stream": "stdout"}
    assert (record.name, record.levelno) == ("processes.sidecars", logging.INFO)


def test_invalid_utf8_is_shown_escaped(tell) -> None:
    assert tell(b"a\xffb") == ["sidecar=bridge stream=stdout a\ufffdb"]


def test_long_line_is_truncated_without_partial_secret(tell, monkeypatch) -> None:
    monkeypatch.setattr(redaction, "_known_secrets", {})
    monkeypatch.setattr(redaction, "_longest_first", ())
    redaction.register_secrets(["q7Vd2mXw9Lr4TzK8bNf3HcYs"])
    start = b"x" * (log_pipe.MAX_LINE_LENGTH - 10)
    (said,) = tell(start + b"q7Vd2mXw9Lr4TzK8bNf3HcYs" + b"y" * 99)
    assert said.endswith("x[redacted]… (cut off)")


def test_output_over_the_rate_is_dropped_and_counted(tell, monkeypatch) -> None:
    now = [0.0]
    clock = SimpleNamespace(monotonic=lambda: now[0], time=time.time)
    monkeypatch.setattr(log_pipe, "time", clock)
    monkeypatch.setattr(log_pipe, "BURST_LINES", 3)
    monkeypatch.setattr(log_pipe, "LINES_PER_SECOND", 2)
    told = OutputLogger("bridge")
    tell()
    for second in range(3):
        now[0] = second
        for line in range(5):
            told.add("stderr", b"%d.%d" % (second, line))
    told.log_dropped()
    assert [said.removeprefix("sidecar=bridge ") for said in tell()] == [
        *(f"stream=stderr 0.{line}" for line in range(3)),
        "printed more than 2 lines a second: 2 left out",
        *(f"stream=stderr 1.{line}" for line in range(2)),
        "printed more than 2 lines a second: 3 left out",
        *(f"stream=stderr 2.{line}" for line in range(2)),
        "printed more than 2 lines a second: 3 left out",
    ]


def test_last_lines_are_kept_short_and_without_secrets() -> None:
    told = OutputLogger("bridge")
    told.add("stderr", b"my key is sk-" + b"a" * 40)
    told.add("stdout", b"x" * 2 * log_pipe.MAX_KEPT_LENGTH)
    first, second = told.last
    assert first.stream == "stderr"
    assert "sk-a" not in first.text
    assert len(second.text) == log_pipe.MAX_KEPT_LENGTH
    for number in range(log_pipe.MAX_KEPT_LINES):
        told.add("stdout", b"%d" % number)
    assert next(line.text for line in told.last) == "0"
    assert len(told.last) == log_pipe.MAX_KEPT_LINES
