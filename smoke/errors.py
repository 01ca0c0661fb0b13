"""Errors of smoke tests, besides unmet expectations."""

from core.errors import CoulisseError, NotFound, Unavailable


class SmokeTestUnknown(NotFound):
    """The smoke test does not exist."""

    code = "smoke_test_not_found"


class RunUnknown(NotFound):
    """The run does not exist. Runs are deleted after the test's `keep_days`."""

    code = "smoke_run_not_found"


class RunClosed(CoulisseError):
    """The run was cancelled or deleted before it started."""


class PersonaUnavailable(Unavailable):
    """The persona's provider is not configured."""


class EmptyReply(CoulisseError):
    """One side of the conversation sent an empty message."""
