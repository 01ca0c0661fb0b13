"""The hierarchy of this project's errors.

CoulisseError
├── Invalid         the request is not acceptable
│   └── Conflict    the request conflicts with the current state
├── Unauthenticated the request has no valid credential
├── Denied          the caller may not do this
├── NotFound        the named object does not exist
├── Limited         the caller must wait, or has exhausted a budget
├── Upstream        a provider failed, or its model could not comply
└── Unavailable     a part of the server, such as the database, is down

Each app subclasses these in its own `errors.py`. The docstring is the default
message. Domain code knows no HTTP status: `gateway/errors.py` maps families.

`message` is for the client, who may be untrusted: it contains no address, file,
environment variable or configuration key. Those are in `detail`, which the log and the
turn records show to operators; `str()` returns both.
"""

import inspect

DETAIL_MARKER = " [details: "
"""Separates the message and the detail in a combined text."""


class CoulisseError(Exception):
    """Something went wrong."""

    code: str | None = None
    """A stable, machine-readable name for this error, or None."""
    provider: str = ""
    """The provider concerned, by its name under `providers:`."""
    attempts: int | None = None
    """The number of provider requests of the turn so far; None outside of turns."""

    detail: str = ""
    """Details for operators: addresses, keys of the YAML, a remedy."""

    def __init__(self, message: str | None = None, *, detail: str = "") -> None:
        self.message = message or inspect.cleandoc(type(self).__doc__ or "")
        if detail:
            self.detail = detail
        super().__init__(self.message)

    def __str__(self) -> str:
        if not self.detail:
            return self.message
        return f"{self.message}{DETAIL_MARKER}{self.detail}]"


class Invalid(CoulisseError):
    """The request is not valid."""

    def __init__(
        self,
        message: str | None = None,
        *,
        param: str | None = None,
        code: str | None = None,
        detail: str = "",
    ) -> None:
        super().__init__(message, detail=detail)
        self.param = param
        if code is not None:
            self.code = code


class Conflict(Invalid):
    """The request conflicts with the current state."""


class Unauthenticated(CoulisseError):
    """The request carries no valid credential."""

    def __init__(
        self, message: str | None = None, *, challenge: str = "Bearer", detail: str = ""
    ) -> None:
        super().__init__(message, detail=detail)
        self.challenge = challenge
        """The value of HTTP's `WWW-Authenticate`: how to authenticate."""


class Denied(CoulisseError):
    """This is not allowed."""


class NotFound(CoulisseError):
    """There is no such thing."""

    def __init__(
        self, message: str | None = None, *, param: str | None = None, detail: str = ""
    ) -> None:
        super().__init__(message, detail=detail)
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

    def __init__(
        self, message: str | None = None, *, provider: str = "", detail: str = ""
    ) -> None:
        super().__init__(message, detail=detail)
        self.provider = provider


class Unavailable(CoulisseError):
    """A part of the server is not available right now."""


def recorded_text(error: Exception) -> str:
    """Return an error's text for records: only the type of a programming error."""
    is_expected = isinstance(error, CoulisseError)
    return str(error) if is_expected else type(error).__name__


def error_type(error: BaseException) -> str:
    """Return the code of an error, or the name of its class."""
    return getattr(error, "code", None) or type(error).__name__


def public_text(text: str) -> str:
    """Return a recorded error's message without its detail, for users."""
    return text.partition(DETAIL_MARKER)[0]
