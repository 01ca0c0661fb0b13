"""Decides whether a failed attempt is retried."""

from access.errors import BudgetExceeded
from core.errors import Denied, Invalid, NotFound, Unauthenticated
from providers.errors import KeyRefused, ModelUnknown, OutOfCredit
from tasks.errors import TaskTimedOut

PERMANENT_ERRORS = (
    BudgetExceeded,
    Denied,
    Invalid,
    KeyRefused,
    ModelUnknown,
    NotFound,
    OutOfCredit,
    TaskTimedOut,
    Unauthenticated,
)
"""Errors that need human action: a retry would fail the same way."""


def is_retryable(error: BaseException) -> bool:
    return not isinstance(error, PERMANENT_ERRORS)
