"""Errors of safety checks."""

from core.errors import Upstream


class CheckFailed(Upstream):
    """The check could not be made."""

    code = "safety_check_failed"
