"""Log lines as text and as JSON."""

import contextvars
import json
import logging
import socket
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from io import StringIO
from logging.config import DictConfigurator
from typing import Any

import pytest
from django.conf import settings

from core.runtime import request_ids
from core.text import redaction
from coulisse_site.celery import app as celery_app
from gateway.asgi.access_log import QueryStringFilter
from telemetry.log_output import formatters, logs

SECRET = "q7Vd2mXw9Lr4TzK8bNf3HcYs"
SEEN = datetime(2026, 3, 1, 9, 30, 2, 114_900, tzinfo=UTC)
BOTH = pytest.mark.parametrize("name", ["text", "json"])


@pytest.fixture(autouse=True)
def _knows(monkeypatch):
    monkeypatch.setattr(redaction, "_known_secrets", {})
    monkeypatch.setattr(redaction, "_longest_first", ())
    redaction.register_secrets([SECRET])


def formatter(name: str) -> logging.Formatter:
    """Return a formatter of the settings."""
    configured = DictConfigurator(settings.LOGGING)
    created = configured.configure_formatter(configured.config["formatters"][name])
    assert isinstance(created, formatters.TextFormatter | formatters.JsonFormatter)
    return created


def record(
    message: str, *args: object, error: Exception | None = None, **extra: Any
) -> logging.LogRecord:
    trouble = None if error is None else (type(error), error, error.__traceback__)
    created = logging.LogRecord(
        "a.b", logging.WARNING, __file__, 1, message, args, trouble
    )
    created.created = SEEN.timestamp()
    vars(created).update(extra)
    return created


def text(*args: Any, **more: Any) -> str:
    return formatter("text").format(record(*args, **more))


def read(*args: Any, **more: Any) -> dict[str, Any]:
    line = formatter("json").format(record(*args, **more))
    assert "\n" not in line
    entry = json.loads(line)
    assert isinstance(entry, dict)
    return entry


def raise_error(message: str) -> Exception:
    try:
        raise ValueError(message)
    except ValueError as exc:
        return exc


def test_text_line_format():
    assert text("said %s", 1) == "2026-03-01 09:30:02,114 WARNING a.b said 1"


def test_json_line_format(monkeypatch):
    monkeypatch.setenv(formatters.PROCESS_VARIABLE, "web-1")
    entry = read("said %s", 1, fields={"seconds": 1.5, "agent": "a", "level": "mine"})
    assert entry.pop("pid") > 0
    assert entry.pop("host") == socket.gethostname()
    assert entry == {
        "time": "2026-03-01T09:30:02.114Z",
        "level": "WARNING",
        "logger": "a.b",
        "message": "said 1",
        "process": "web-1",
        "seconds": 1.5,
        "agent": "a",
    }


def test_line_contains_the_request_id():
    def log_lines() -> tuple[str, dict[str, Any]]:
        request_ids.assign_request_id(b"checkout-7")
        return text("said"), read("said")

    line, entry = contextvars.Context().run(log_lines)
    assert line == "2026-03-01 09:30:02,114 WARNING a.b [checkout-7] said"
    assert entry["request_id"] == "checkout-7"
    assert "request_id" not in read("said")


@pytest.mark.parametrize(
    ("argv", "name"),
    [
        (["/x/manage.py", "start", "-F"], "supervisor"),
        (["/x/bin/coulisse", "start", "--foreground"], "supervisor"),
        (["manage.py", "turns"], "turns"),
        (["/x/processes/beat.py", "--parent-pipe", "3"], "beat"),
        (["manage.py"], "manage"),
        (["-c"], "-c"),
        ([], "python"),
    ],
)
def test_unnamed_process_is_named_by_its_command(monkeypatch, argv, name):
    monkeypatch.delenv(formatters.PROCESS_VARIABLE, raising=False)
    monkeypatch.setattr(sys, "argv", argv)
    assert formatters.process_name() == name


# Tracebacks.


def test_text_traceback_is_indented():
    lines = text("failed", error=raise_error("no")).splitlines()
    assert lines[0].endswith("WARNING a.b failed")
    assert lines[1] == "    Traceback (most recent call last):"
    assert lines[-1] == "    ValueError: no"
    assert all(line.startswith("    ") for line in lines[1:])


def test_json_traceback_is_one_field():
    entry = read("failed", error=raise_error("no"))
    assert entry["message"] == "failed"
    assert entry["exception"].startswith("Traceback (most recent call last):\n")
    assert entry["exception"].endswith("\nValueError: no")


def test_stack_info_is_included():
    assert text("here", stack_info="Stack:\n  x").endswith("here\n    Stack:\n      x")
    assert read("here", stack_info="Stack:\n  x")["exception"] == "Stack:\n  x"


# External input cannot begin a line.

FORGED = "a\n2026-03-01 09:30:02,114 INFO a.b forged\r\x1b[2K\u2028"


def test_message_is_escaped_to_one_line():
    line = text("%s", FORGED)
    assert line.count("\n") == 0
    assert line.endswith(r"a\n2026-03-01 09:30:02,114 INFO a.b forged\r\x1b[2K\u2028")
    assert read("%s", FORGED)["message"] == line.partition("a.b ")[2]


def test_traceback_cannot_forge_a_line():
    entry = text("failed", error=raise_error(FORGED)).splitlines()
    assert [line for line in entry if line.startswith("2026")] == entry[:1]
    assert "\x1b" not in read("failed", error=raise_error(FORGED))["exception"]


def test_multiline_messages_are_indented_when_allowed():
    line = text("broken:\n%s", "first\nsecond\x1b", has_lines=True)
    assert line.endswith("WARNING a.b broken:\n    first\n    second\\x1b")
    entry = read("broken:\n%s", "first\nsecond\x1b", has_lines=True)
    assert entry["message"] == "broken:\nfirst\nsecond\\x1b"


def test_lone_surrogate_is_escaped():
    assert text("half \ud800").endswith(r"half \ud800")
    assert read("half \ud800", fields={"agent": "\ud800"})["agent"] == r"\ud800"


# Redaction.


@BOTH
@pytest.mark.parametrize(
    "message",
    [
        {"message": "it is " + SECRET},
        {"message": "it is\n" + SECRET, "has_lines": True},
        {"message": "it is", "error": raise_error(f"the key {SECRET}\nis no good")},
        {"message": "it is", "error": raise_error("Bearer q7Vd2mXw9Lr4TzK8bNf3HcYs")},
        {"message": "it is", "fields": {"agent": SECRET}},
        {"message": "it is", "fields": {"agent": ValueError(SECRET)}},
        {"message": "it is", "stack_info": SECRET},
    ],
)
def test_secrets_are_redacted_in_every_part(name, message):
    assert SECRET not in formatter(name).format(record(**message))


@BOTH
def test_secrets_in_arguments_are_redacted(name):
    for args in ((SECRET,), (ValueError(SECRET),), ({"key": SECRET},)):
        line = formatter(name).format(record("it is %r", *args))
        assert SECRET not in line
        assert "[redacted]" in line


@BOTH
def test_unformattable_message_is_logged(name, capsys):
    line = formatter(name).format(record("%d of them: %s", SECRET, "x"))
    assert "%d of them" in line
    assert SECRET not in line
    assert capsys.readouterr().err == ""


def test_every_handler_uses_our_formatters():
    for handler in settings.LOGGING["handlers"].values():
        assert handler["formatter"] in settings.LOGGING["formatters"]
    for options in settings.LOGGING["formatters"].values():
        assert options["()"] in (
            "telemetry.log_output.formatters.TextFormatter",
            "telemetry.log_output.formatters.JsonFormatter",
        )


# Lines of uvicorn.


def test_query_strings_are_removed():
    path = "/mcp/github/oauth/callback?code=abc"
    created = record('%s - "%s %s HTTP/%s" %d', "127.0.0.1:1", "GET", path, "1.1", 200)
    assert QueryStringFilter().filter(created)
    assert created.getMessage().endswith(
        '"GET /mcp/github/oauth/callback?… HTTP/1.1" 200'
    )
    entry = json.loads(formatter("json").format(created))
    assert entry["path"] == "/mcp/github/oauth/callback?…"
    assert (entry["method"], entry["status"]) == ("GET", 200)


def test_path_without_a_query_is_unchanged():
    created = record('%s - "%s %s HTTP/%s" %d', "1:1", "GET", "/v1/models", "1.1", 200)
    QueryStringFilter().filter(created)
    assert "/v1/models HTTP" in created.getMessage()


# Warnings and uncaught exceptions.


@pytest.fixture
def taken_over(monkeypatch) -> Iterator[Callable[[], list[dict[str, Any]]]]:
    """Install the hooks of a server process; yield a function that reads the log."""
    for module, name in (
        (sys, "excepthook"),
        (threading, "excepthook"),
        (sys, "unraisablehook"),
    ):
        monkeypatch.setattr(module, name, getattr(module, name))
    written = StringIO()
    handler = logging.StreamHandler(written)
    handler.setFormatter(formatter("json"))
    root = logging.getLogger()
    root.addHandler(handler)
    logs.capture_python_output()
    yield lambda: [json.loads(line) for line in written.getvalue().splitlines()]
    logging.captureWarnings(False)
    root.removeHandler(handler)


def test_uncaught_exception_is_a_log_line(taken_over):
    error = raise_error(SECRET)
    sys.excepthook(type(error), error, error.__traceback__)
    [entry] = taken_over()
    assert entry["level"] == "CRITICAL"
    assert entry["exception"].endswith("ValueError: [redacted]")


def test_keyboard_interrupt_is_not_logged(taken_over, capsys):
    sys.excepthook(KeyboardInterrupt, KeyboardInterrupt(), None)
    assert taken_over() == []
    assert "KeyboardInterrupt" in capsys.readouterr().err


def test_uncaught_thread_exception_is_a_log_line(taken_over):
    def fail() -> None:
        raise ValueError(SECRET)

    thread = threading.Thread(target=fail, name="of-a-test")
    thread.start()
    thread.join()
    [entry] = taken_over()
    assert entry["message"] == "uncaught exception in thread of-a-test"
    assert entry["exception"].endswith("ValueError: [redacted]")


def test_unraisable_exception_is_a_log_line(taken_over):
    class FailingFinalizer:
        def __del__(self) -> None:
            raise ValueError(SECRET)

    FailingFinalizer()
    [entry] = taken_over()
    assert "FailingFinalizer.__del__" in entry["message"]
    assert entry["exception"].endswith("ValueError: [redacted]")


def test_warning_is_a_log_line(taken_over):
    with warnings.catch_warnings():
        warnings.simplefilter("default")
        warnings.showwarning(UserWarning(SECRET), UserWarning, "a.py", 1)
    [entry] = taken_over()
    assert entry["logger"] == "py.warnings"
    assert "UserWarning: [redacted]" in entry["message"]


# Lines of tasks.


@pytest.mark.database
def test_celery_job_uses_its_message_id_as_request_id(database):
    def in_a_thread_of_the_worker() -> tuple[str, str]:
        @celery_app.task(name="look")
        def look() -> str:
            return request_ids.current.get()

        inside = look.apply(task_id="of-a-test").get()
        return inside, request_ids.current.get()

    with ThreadPoolExecutor(1) as worker:
        entry = worker.submit(in_a_thread_of_the_worker).result()
    assert entry == ("job_of-a-test", "")
