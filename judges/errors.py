"""What can go wrong while a reply is judged, by a model or by a person."""

from core.errors import NotFound, Upstream


class JudgeResultUnreadable(Upstream):
    """The judge's answer could not be read, nor the one after it."""

    code = "judge_unreadable"


class JudgeTimedOut(Upstream):
    """The judge's model took too long."""

    code = "judge_timeout"


class MessageUnknown(NotFound):
    """There is no such message of yours. Nothing can be said of messages that were \
not stored, as in incognito turns."""

    code = "message_not_found"


class FeedbackUnknown(NotFound):
    """You have said nothing of this message."""

    code = "feedback_not_found"
