"""Turn ids are unique and ordered by time."""

import time
import uuid

from core.ids import new_turn_id


def test_turn_ids_are_uuid7_and_begin_with_the_time():
    before = time.time_ns() // 1_000_000
    ids = [new_turn_id() for _ in range(1000)]
    after = time.time_ns() // 1_000_000

    assert len(set(ids)) == 1000
    assert {(each.version, each.variant) for each in ids} == {(7, uuid.RFC_4122)}
    assert before <= ids[0].int >> 80 <= ids[-1].int >> 80 <= after
