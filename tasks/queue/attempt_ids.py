"""The turns a task took, one for each attempt, told by their ids alone."""

import uuid

from core.ids import TurnId


def turn_id(task_id: uuid.UUID, number: int) -> TurnId:
    """Return the id of the turn that an attempt takes; attempts count from 1."""
    return TurnId(uuid.uuid5(task_id, str(number)))


def turn_ids(task_id: uuid.UUID, count: int) -> list[TurnId]:
    """Return those of so many attempts, the first one first."""
    return [turn_id(task_id, number) for number in range(1, count + 1)]
