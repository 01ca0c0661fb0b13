"""What the processes of this installation write of themselves in their heartbeats."""

from collections.abc import Callable

from config import live
from config.errors import SecretsInvalid
from config.loading import secrets_file
from database.running_processes import ProcessReport


def report_of(kind: str) -> Callable[[], ProcessReport]:
    """Return a function that describes this process as it is when called.

    Its keys are those it has now.
    """
    try:
        ids = secrets_file.key_ids()
    except SecretsInvalid:
        ids = ""
    return lambda: ProcessReport(kind, live.file_digest(), key_ids=ids)
