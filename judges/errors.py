"""Errors of judges and of feedback."""

from core.errors import Invalid, NotFound, Upstream


class JudgeResultUnreadable(Upstream):
    """The judge's answer could not be read, even on the second try."""

    code = "judge_unreadable"


class JudgeTimedOut(Upstream):
    """The judge's model took too long."""

    code = "judge_timeout"


class JudgeUnknown(NotFound):
    """There is no such judge."""

    code = "judge_not_found"


class JudgeUnused(Invalid):
    """No agent lists this judge under judges:."""

    code = "judge_unused"


class MessageUnknown(NotFound):
    """This user has no such message. Messages of incognito turns are not stored and \
accept no feedback."""

    code = "message_not_found"


class FeedbackUnknown(NotFound):
    """You have given no feedback on this message."""

    code = "feedback_not_found"
