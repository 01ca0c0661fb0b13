"""What can go wrong while a reply is judged."""

from core.errors import Upstream


class AnswerUnreadable(Upstream):
    """The judge's answer could not be read, nor the one after it."""

    code = "judge_unreadable"


class JudgeTimedOut(Upstream):
    """The judge's model took too long."""

    code = "judge_timeout"
