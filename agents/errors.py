"""Errors of resolving and calling agents."""

from core.errors import CoulisseError, NotFound


class AgentUnknown(NotFound):
    """No agent has this name."""

    code = "model_not_found"


class SubagentFailed(CoulisseError):
    """The called agent returned no answer."""
