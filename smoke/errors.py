"""What can go wrong with a smoke test besides its expectations."""

from core.errors import CoulisseError, NotFound, Unavailable


class SmokeTestUnknown(NotFound):
    """There is no smoke test of that name."""

    code = "smoke_test_not_found"


class RunUnknown(NotFound):
    """There is no such run. Runs are deleted after a while."""

    code = "smoke_run_not_found"


class RunClosed(CoulisseError):
    """The run was cancelled or deleted before it began."""


class PersonaUnavailable(Unavailable):
    """The persona's provider is not configured."""


class EmptyReply(CoulisseError):
    """One side of the conversation said nothing."""
