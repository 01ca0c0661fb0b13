"""What is made of an error that ended an attempt."""

from access.errors import BudgetExceeded
from core.errors import Denied, Invalid, NotFound, Unauthenticated
from providers.errors import KeyRefused, ModelUnknown, OutOfCredit
from tasks.errors import TaskTimedOut

PERMANENT_ERRORS = (
    *(Denied, Invalid, NotFound, Unauthenticated, BudgetExceeded),
    *(KeyRefused, ModelUnknown, OutOfCredit),
    TaskTimedOut,
)
"""Somebody must do something first: trying again comes to the same."""


def is_retryable(error: BaseException) -> bool:
    """Return whether another attempt may do better."""
    return not isinstance(error, PERMANENT_ERRORS)
