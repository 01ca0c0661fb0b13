"""The tables of judges, with the rules of their rows."""

from judges.models.feedback import Feedback
from judges.models.judge_tasks import JudgeTask, JudgingCounts, JudgingTally
from judges.models.scores import Score

__all__ = ["Feedback", "JudgeTask", "JudgingCounts", "JudgingTally", "Score"]
