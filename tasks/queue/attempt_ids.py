"""Turn ids of a task's attempts, computed from the task's id."""

import uuid

from core.ids import TurnId


def turn_id(task_id: uuid.UUID, number: int) -> TurnId:
    """Return the id of the turn of an attempt; attempts count from 1."""
    return TurnId(uuid.uuid5(task_id, str(number)))


def turn_ids(task_id: uuid.UUID, count: int) -> list[TurnId]:
    """Return the turn ids of the first `count` attempts, in order."""
    return [turn_id(task_id, number) for number in range(1, count + 1)]
