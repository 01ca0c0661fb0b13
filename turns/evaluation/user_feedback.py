"""What a user says of a reply they got, kept beside what judges say of it."""

from django.db import transaction

from core.ids import TurnId, UserId
from judges import feedback
from judges.errors import FeedbackUnknown, MessageUnknown
from judges.feedback import Said
from judges.models import Feedback
from memory.transcript import turn_lookup
from telemetry.models import Turn


def give(user_id: UserId, turn_id: TurnId, said: Said) -> Feedback:
    """Keep what a user says of a reply; raises `MessageUnknown` if they got none."""
    with transaction.atomic():
        # Who erases the user waits, so that nothing is left of them by this.
        place = turn_lookup.place(user_id, turn_id, is_locked=True)
        if place is None:
            raise MessageUnknown(param="message_id")
        return feedback.put(
            user_id,
            turn_id,
            said,
            agent=place.agent,
            experiment=_experiment(turn_id),
        )


def _experiment(turn_id: TurnId) -> str:
    """Return what chose the agent, where turns are recorded."""
    found = Turn.objects.filter(pk=turn_id).values_list("experiment", flat=True)
    return found.first() or ""


def get(user_id: UserId, turn_id: TurnId) -> Feedback:
    """Return what a user said of a reply; raises `FeedbackUnknown`."""
    row = feedback.get(user_id, turn_id)
    if row is None:
        raise FeedbackUnknown
    return row


def take_back(user_id: UserId, turn_id: TurnId) -> None:
    """Delete what a user said of a reply; raises `FeedbackUnknown`."""
    if not feedback.delete(user_id, turn_id):
        raise FeedbackUnknown
