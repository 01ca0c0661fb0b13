"""Distinct types for ids that cross layers, so that type checks catch mix-ups."""

import os
import time
import uuid
from typing import NewType

UserId = NewType("UserId", uuid.UUID)
TurnId = NewType("TurnId", uuid.UUID)


def new_turn_id() -> TurnId:
    """Return an id for one turn; its hex form is part of the completion id.

    A UUID of version 7 (RFC 9562), which begins with the time: tables with this key
    grow at their end, which costs a database the fewest page writes.
    """
    milliseconds = time.time_ns() // 1_000_000
    number = milliseconds << 80 | int.from_bytes(os.urandom(10))
    number = number & ~(0xF << 76) | 7 << 76  # the version
    number = number & ~(0x3 << 62) | 2 << 62  # the variant
    return TurnId(uuid.UUID(int=number))
