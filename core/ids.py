"""The ids that cross layers, as types of their own so they cannot be mixed up."""

import uuid
from typing import NewType

UserId = NewType("UserId", uuid.UUID)
TurnId = NewType("TurnId", uuid.UUID)


def new_turn_id() -> TurnId:
    """Return an id for one turn; its hex form is in the completion id clients see."""
    return TurnId(uuid.uuid4())
