"""What is made of an error that ended an attempt."""

from access.errors import BudgetSpent
from core.errors import Denied, Invalid, NotFound, Unauthenticated
from providers.errors import KeyRefused, ModelUnknown, OutOfCredit
from tasks.errors import DeadlinePassed

LASTING = (
    *(Denied, Invalid, NotFound, Unauthenticated, BudgetSpent),
    *(KeyRefused, ModelUnknown, OutOfCredit),
    DeadlinePassed,
)
"""Somebody must do something first: trying again comes to the same."""


def may_pass(error: BaseException) -> bool:
    """Return whether another attempt may do better."""
    return not isinstance(error, LASTING)
