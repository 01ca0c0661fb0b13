"""Runs the checks of `coulisse doctor`: all at once, each with a time limit."""

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from django.core import checks
from django.db import DatabaseError, connections
from django.utils.module_loading import import_string

from config.sections import Config
from core.text import redaction

Level = Literal["ok", "warning", "problem"]
Check = Callable[[Config | None], Iterable[checks.CheckMessage]]
BROKEN = "report this as a bug of Coulisse, with the error"


@dataclass(frozen=True, slots=True)
class Finding:
    """One result of a check, without secrets."""

    check: str
    level: Level
    message: str
    remedy: str = ""


def run_checks(
    paths: Mapping[str, str], config: Config | None, *, seconds: float
) -> Iterator[Finding]:
    """Yield the findings of these checks in their order.

    `paths` are dotted names of functions by title. They run at the same time, so that
    all have ended after `seconds`; one that has not is a problem.
    """
    running = {title: RunningCheck(path, config) for title, path in paths.items()}
    deadline = time.monotonic() + seconds
    for title, check in running.items():
        check.thread.join(max(0.0, deadline - time.monotonic()))
        found = list(check.found)
        if check.thread.is_alive():
            message = f"it has not ended within {seconds:.0f} s"
            found.append(checks.Error(message, hint="what it checks hangs, or is slow"))
        for each in found:
            yield _finding(title, each)


class RunningCheck:
    """A check in a thread of its own, which may hang."""

    def __init__(self, path: str, config: Config | None) -> None:
        self.found: list[checks.CheckMessage] = []
        self._path = path
        self._config = config
        self.thread = threading.Thread(target=self._run, name=path, daemon=True)
        self.thread.start()

    def _run(self) -> None:
        try:
            check: Check = import_string(self._path)
            for message in check(self._config):
                self.found.append(message)
        except DatabaseError:
            text = "unknown, because the database cannot be used"
            self.found.append(
                checks.Warning(text, hint="see the check of the database")
            )
        except Exception as exc:
            text = f"it failed: {type(exc).__name__}: {exc}"
            self.found.append(checks.Error(text, hint=BROKEN))
        finally:
            connections.close_all()


def _finding(title: str, message: checks.CheckMessage) -> Finding:
    level: Level = "ok"
    if message.level >= checks.WARNING:
        level = "problem" if message.level >= checks.ERROR else "warning"
    place = f"{message.obj}: " if message.obj else ""
    texts = (f"{place}{message.msg}", message.hint or "")
    return Finding(title, level, *map(redaction.redact_all, texts))
