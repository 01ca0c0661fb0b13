"""The family tree of everything that can go wrong.

CoulisseError
├── Invalid         the caller sent something we cannot accept
│   └── Conflict    it does not go with what is there, or has changed underneath
├── Unauthenticated the caller has not said who they are
├── Denied          the caller may not do this
├── NotFound        the caller named something that does not exist
├── Limited         the caller must wait, or has spent what they had
├── Upstream        a provider failed, or its model could not comply
└── Unavailable     a part of ours (the database, say) is down

Each app subclasses these in its own `errors.py`. The docstring is the default
message. Domain code knows no HTTP status: `gateway/errors.py` maps families.
"""

import inspect


class CoulisseError(Exception):
    """Something went wrong."""

    code: str | None = None
    """A stable, machine-readable name for this error, or None."""
    provider: str = ""
    """Which provider it is about, by its name under `providers:`."""
    attempts: int | None = None
    """How many requests to providers a turn made until it; None outside of turns."""

    def __init__(self, message: str | None = None) -> None:
        self.message = message or inspect.cleandoc(type(self).__doc__ or "")
        super().__init__(self.message)


class Invalid(CoulisseError):
    """The request is not valid."""

    def __init__(
        self,
        message: str | None = None,
        *,
        param: str | None = None,
        code: str | None = None,
    ) -> None:
        super().__init__(message)
        self.param = param
        if code is not None:
            self.code = code


class Conflict(Invalid):
    """This does not go with what is there already."""


class Unauthenticated(CoulisseError):
    """The request carries no valid credential."""

    def __init__(
        self, message: str | None = None, *, challenge: str = "Bearer"
    ) -> None:
        super().__init__(message)
        self.challenge = challenge
        """What HTTP's `WWW-Authenticate` says: how to give one."""


class Denied(CoulisseError):
    """This is not allowed."""


class NotFound(CoulisseError):
    """There is no such thing."""

    def __init__(self, message: str | None = None, *, param: str | None = None) -> None:
        super().__init__(message)
        self.param = param


class Limited(CoulisseError):
    """Too many requests."""

    def __init__(
        self, message: str | None = None, *, retry_after_seconds: float | None = None
    ) -> None:
        super().__init__(message)
        self.retry_after_seconds = retry_after_seconds


class Upstream(CoulisseError):
    """The provider failed."""

    def __init__(self, message: str | None = None, *, provider: str = "") -> None:
        super().__init__(message)
        self.provider = provider


class Unavailable(CoulisseError):
    """A part of the server is not available right now."""


def recorded(error: Exception) -> str:
    """Return what a record says of an error: of a fault of ours, its kind alone."""
    is_ours = not isinstance(error, CoulisseError)
    return type(error).__name__ if is_ours else str(error)
