"""What this process knows of the database and of the processes that share it.

Its heartbeats tell (`heartbeat_loop.py`), so no request and no health check asks the
database.
"""

import logging
import math
import sqlite3
import time
import uuid
from collections.abc import Sequence
from dataclasses import dataclass

from database.errors import DatabaseUnwritable

HEARTBEAT_SECONDS = 4
GONE_AFTER_SECONDS = 12
"""A process that has not written its row for this long is gone."""
SETTLED_AFTER_SECONDS = 30
"""Time for all processes to start, before a missing one is a problem."""

SQLSTATES = {"53100", "25006"}
"""PostgreSQL: the disk is full, or transactions are read-only."""
SQLITE_CODES = {sqlite3.SQLITE_FULL, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_IOERR}

logger = logging.getLogger(__name__)

WARNINGS = {
    "no_worker": "No worker runs, so background work waits",
    "no_beat": "No beat runs, so crons and maintenance wait",
    "config_drift": "Processes use different YAML files",
}
"""By the codes of `Fleet.warnings`."""

_own_id = uuid.uuid4()
_started_at = time.monotonic()


def own_id() -> uuid.UUID:
    """Return the id of this process; its row has it from the first heartbeat on."""
    return _own_id


@dataclass(frozen=True, slots=True)
class ProcessReport:
    """What a process writes of itself."""

    kind: str
    """`web`, `worker` or `beat`."""
    config_digest: str
    key_ids: str = ""


@dataclass(frozen=True, slots=True)
class Fleet:
    """The running processes."""

    webs: int = 0
    workers: int = 0
    beats: int = 0
    config_digests: Sequence[str] = ()
    """The different YAML files in force."""

    def warnings(self) -> list[str]:
        """Return a code for each problem: `no_worker`, `no_beat`, `config_drift`."""
        found = {
            "no_worker": not self.workers,
            "no_beat": not self.beats,
            "config_drift": len(self.config_digests) > 1,
        }
        return [code for code, is_found in found.items() if is_found]


class DatabaseState:
    """The last heartbeats of this process; without any, as in commands, all is well."""

    def __init__(self) -> None:
        self.fleet: Fleet | None = None
        """None before the first heartbeat."""
        self.problem = ""
        """Why rows cannot be written; empty if they can."""
        self.needs_space = False
        """Whether a write failed for want of space: a heartbeat needs none."""
        self._written_at: float | None = None
        self._recovered_at = -math.inf

    def begin(self) -> None:
        self._written_at = time.monotonic()

    def succeed(self, fleet: Fleet) -> None:
        if self.find_problem():
            logger.warning("the database can be written again")
            self._recovered_at = time.monotonic()
        self.fleet, self.problem, self.needs_space = fleet, "", False
        self._written_at = time.monotonic()

    def fail(self, problem: str) -> None:
        """Remember why a heartbeat failed, for operators."""
        if not self.problem:
            logger.error(
                "turns are refused, the database cannot be written: %s", problem
            )
        self.problem = problem

    def refuse(self, problem: str) -> None:
        """Remember a write that proves that no further one can succeed."""
        self.needs_space = True
        self.fail(problem)

    def end(self) -> None:
        self.fleet, self.problem, self.needs_space = None, "", False
        self._written_at = None

    def find_problem(self) -> str:
        """Return why nothing can be stored now; empty if it can."""
        if self.problem or self._written_at is None:
            return self.problem
        seconds = time.monotonic() - self._written_at
        if seconds > GONE_AFTER_SECONDS:
            return f"no row could be stored for {seconds:.0f} s"
        return ""

    def is_steady(self) -> bool:
        """Return whether other processes have had time to write since an outage.

        Before, one that has not been seen lately need not be gone.
        """
        seconds = time.monotonic() - self._recovered_at
        return seconds > GONE_AFTER_SECONDS and not self.find_problem()

    def warnings(self) -> list[str]:
        """Return the codes of `Fleet.warnings`, once all could have started."""
        has_settled = time.monotonic() - _started_at > SETTLED_AFTER_SECONDS
        return self.fleet.warnings() if self.fleet and has_settled else []


STATE = DatabaseState()


def refuse_if_unwritable() -> None:
    """Raise `DatabaseUnwritable` if what would be paid for could not be stored."""
    if problem := STATE.find_problem():
        raise DatabaseUnwritable(detail=problem)


def unwritable_reason(exc: Exception) -> str | None:
    """Return the text of an error after which no write can succeed; None for others."""
    state = getattr(exc.__cause__, "sqlstate", None)
    code = getattr(exc.__cause__, "sqlite_errorcode", 0) & 0xFF
    return str(exc) if state in SQLSTATES or code in SQLITE_CODES else None
