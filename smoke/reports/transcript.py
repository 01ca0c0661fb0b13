"""The messages of a run, with the scores of its replies."""

from collections import defaultdict
from uuid import UUID

from judges.models import Score
from smoke.models import SmokeMessage, SmokeRun


def load_messages(run: SmokeRun, start: int = 0) -> list[SmokeMessage]:
    """Return a run's messages from a position on, each with its `scores`."""
    messages = list(run.messages.filter(position__gte=start).order_by("position"))
    scores: dict[UUID | None, list[Score]] = defaultdict(list)
    for score in Score.objects.of_turns(row.turn_id for row in messages if row.turn_id):
        scores[score.turn_id].append(score)
    for row in messages:
        row.scores = scores.get(row.turn_id, [])  # type: ignore[attr-defined]
    return messages
