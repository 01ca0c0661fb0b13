"""Errors of resolving and calling agents."""

from core.errors import CoulisseError, NotFound


class AgentUnknown(NotFound):
    """There is no agent of that name."""

    code = "model_not_found"


class SubagentFailed(CoulisseError):
    """The subagent did not answer."""
