"""The table rows of the live page: turns that ended recently, and the queue."""

from datetime import datetime, timedelta
from typing import Any

from pydantic import computed_field

from studio.live import task_queue
from studio.live.task_queue import ShortError, ShortText
from telemetry.models import Turn
from telemetry.schemas import StudioListedTurn

MAX_TURNS = 30


class EndedTurn(StudioListedTurn):
    """A turn that has ended."""

    user_message: ShortText
    error: ShortError

    @computed_field  # type: ignore[prop-decorator]  # as pydantic documents it
    @property
    def ended_at(self) -> datetime:
        return self.started_at + timedelta(seconds=self.seconds)


def load_latest() -> dict[str, Any]:
    """Return the newest ended turns and the queue, as JSON types."""
    turns = Turn.objects.newest_first()[:MAX_TURNS]
    return {
        "finished": [EndedTurn.serialize(turn) for turn in turns],
        "tasks": task_queue.read_queue().model_dump(mode="json"),
    }
