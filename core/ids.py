"""The ids that cross layers, as types of their own so they cannot be mixed up."""

import os
import time
import uuid
from typing import NewType

UserId = NewType("UserId", uuid.UUID)
TurnId = NewType("TurnId", uuid.UUID)


def new_turn_id() -> TurnId:
    """Return an id for one turn; its hex form is in the completion id clients see.

    A UUID of version 7 (RFC 9562), which begins with the time: so tables that have it
    as a key grow at their end, where a database writes least.
    """
    milliseconds = time.time_ns() // 1_000_000
    number = milliseconds << 80 | int.from_bytes(os.urandom(10))
    number = number & ~(0xF << 76) | 7 << 76  # the version
    number = number & ~(0x3 << 62) | 2 << 62  # the variant
    return TurnId(uuid.UUID(int=number))
