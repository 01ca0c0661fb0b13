"""The highest levels of the session that a turn belongs to."""

from django.db.models import Max

from memory.models import Session
from safety.models import Incident
from safety.turn_safety import CheckedTurn


def read(turn: CheckedTurn) -> dict[str, str]:
    """Return the highest level of each check in the thread's session.

    It began when the thread's last one ended; without sessions it is the whole thread.
    """
    ended = Session.objects.filter(user_id=turn.user_id, thread__name=turn.thread)
    since = ended.aggregate(at=Max("ended_at"))["at"]
    return Incident.objects.session_levels(turn.user_id, turn.thread, since)
