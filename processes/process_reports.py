"""What the processes of this installation write of themselves in their heartbeats."""

from collections.abc import Callable
from functools import partial

from config import live
from config.errors import SecretsInvalid
from config.loading import secrets_file
from database.running_processes import ProcessReport


def report_of(kind: str) -> Callable[[], ProcessReport]:
    """Return a function that describes this process as it is when called."""
    return partial(_report, kind)


def _report(kind: str) -> ProcessReport:
    try:
        ids = secrets_file.key_ids()
    except SecretsInvalid:
        ids = ""
    return ProcessReport(kind, live.file_digest(), key_ids=ids)
