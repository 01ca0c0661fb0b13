"""The feedback of users, for the API: async code names no table."""

from core.ids import TurnId, UserId
from judges.models import Feedback


def save_feedback(
    user_id: UserId, turn_id: TurnId, *, score: int | None, thumb: str | None, text: str
) -> Feedback:
    """Store feedback on a reply; raises `MessageUnknown` without such a reply."""
    return Feedback.objects.rate(
        user_id, turn_id, score=score, thumb=thumb, comment=text
    )


def get_feedback(user_id: UserId, turn_id: TurnId) -> Feedback:
    """Return a user's feedback on a reply; raises `FeedbackUnknown`."""
    return Feedback.objects.get_known(user_id, turn_id)


def delete_feedback(user_id: UserId, turn_id: TurnId) -> None:
    """Delete a user's feedback on a reply; raises `FeedbackUnknown`."""
    Feedback.objects.get_known(user_id, turn_id).delete()
