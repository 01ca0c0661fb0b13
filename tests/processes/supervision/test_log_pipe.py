"""Sidecars' output in the log, of any content and length."""

import logging
import time
from collections.abc import Callable
from types import SimpleNamespace

import pytest

from core.text import redaction
from processes.supervision import log_pipe
from processes.supervision.log_pipe import OutputLogger


def sidecar_records(caplog) -> list[logging.LogRecord]:
    """Return the log records of sidecars; others may be logged meanwhile."""
    return [record for record in caplog.records if record.name == "processes.sidecars"]


@pytest.fixture
def log_lines(caplog) -> Callable[..., list[str]]:
    """Return a function that logs lines and returns the messages."""

    def log_lines(*lines: bytes) -> list[str]:
        with caplog.at_level(logging.INFO):
            output = OutputLogger("bridge")
            for line in lines:
                output.add("stdout", line)
            output.log_dropped()
        return [record.getMessage() for record in sidecar_records(caplog)]

    return log_lines


def test_line_names_its_sidecar(log_lines, caplog) -> None:
    assert log_lines(b"hello\r") == ["sidecar=bridge stream=stdout hello"]
    (record,) = sidecar_records(caplog)
    assert record.fields == {"sidecar": "bridge", "stream": "stdout"}
    assert (record.name, record.levelno) == ("processes.sidecars", logging.INFO)


def test_invalid_utf8_is_shown_escaped(log_lines) -> None:
    assert log_lines(b"a\xffb") == ["sidecar=bridge stream=stdout a\ufffdb"]


def test_long_line_is_truncated_without_partial_secret(log_lines, monkeypatch) -> None:
    monkeypatch.setattr(redaction, "_known_secrets", {})
    monkeypatch.setattr(redaction, "_longest_first", ())
    redaction.register_secrets(["q7Vd2mXw9Lr4TzK8bNf3HcYs"])
    start = b"x" * (log_pipe.MAX_LINE_LENGTH - 10)
    (message,) = log_lines(start + b"q7Vd2mXw9Lr4TzK8bNf3HcYs" + b"y" * 99)
    assert message.endswith("x[redacted]… (truncated)")


def test_output_over_the_rate_is_dropped_and_counted(log_lines, monkeypatch) -> None:
    now = [0.0]
    clock = SimpleNamespace(monotonic=lambda: now[0], time=time.time)
    monkeypatch.setattr(log_pipe, "time", clock)
    monkeypatch.setattr(log_pipe, "BURST_LINES", 3)
    monkeypatch.setattr(log_pipe, "LINES_PER_SECOND", 2)
    output = OutputLogger("bridge")
    log_lines()
    for second in range(3):
        now[0] = second
        for line in range(5):
            output.add("stderr", b"%d.%d" % (second, line))
    output.log_dropped()
    assert [message.removeprefix("sidecar=bridge ") for message in log_lines()] == [
        *(f"stream=stderr 0.{line}" for line in range(3)),
        "printed more than 2 lines a second: dropped 2",
        *(f"stream=stderr 1.{line}" for line in range(2)),
        "printed more than 2 lines a second: dropped 3",
        *(f"stream=stderr 2.{line}" for line in range(2)),
        "printed more than 2 lines a second: dropped 3",
    ]


def test_status_lines_are_short_and_without_secrets() -> None:
    output = OutputLogger("bridge")
    output.add("stderr", b"my key is sk-" + b"a" * 40)
    output.add("stdout", b"x" * 2 * log_pipe.MAX_STATUS_LENGTH)
    first, second = output.lines
    assert first.stream == "stderr"
    assert "sk-a" not in first.text
    assert len(second.text) == log_pipe.MAX_STATUS_LENGTH
    for number in range(log_pipe.MAX_STATUS_LINES):
        output.add("stdout", b"%d" % number)
    assert next(line.text for line in output.lines) == "0"
    assert len(output.lines) == log_pipe.MAX_STATUS_LINES
