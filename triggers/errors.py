"""Errors of triggers."""

from core.errors import Conflict, NotFound


class TriggerUnknown(NotFound):
    """There is no such trigger under triggers:."""

    code = "trigger_not_found"


class TriggerRunning(Conflict):
    """A run of this trigger is active, and skip_if_running is set."""

    code = "trigger_running"
