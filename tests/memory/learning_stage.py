"""What tests of learning share: stored turns and the lessons of them."""

import uuid
from datetime import UTC, datetime

from core.ids import TurnId, UserId
from memory.models import Lesson, Message, Thread

NOON = datetime(2026, 3, 2, 12, 0, tzinfo=UTC)
"""A Monday."""


def new_user() -> UserId:
    return UserId(uuid.uuid4())


def tell(
    user: UserId, *texts: str, thread: str = "", at: datetime = NOON, roles: str = "ua"
) -> Lesson:
    """Store a turn and its lesson; `roles` are first letters, taken in rotation."""
    row, _ = Thread.objects.get_or_create(
        user_id=user, name=thread, defaults={"created_at": at, "updated_at": at}
    )
    names = {"u": "user", "a": "assistant", "t": "tool", "s": "system"}
    turn_id = TurnId(uuid.uuid4())
    first = row.length
    Message.objects.bulk_create(
        Message(
            thread=row,
            position=first + number,
            turn_id=turn_id,
            role=names[roles[number % len(roles)]],
            text=text,
            tokens=len(text) // 4 + 4,
            created_at=at,
        )
        for number, text in enumerate(texts)
    )
    row.length = first + len(texts)
    row.save()
    return lesson_of(row, turn_id, first, row.length)


def lesson_of(thread: Thread, turn_id: TurnId, first: int, end: int) -> Lesson:
    return Lesson.objects.create(
        user_id=thread.user_id,
        thread=thread,
        turn_id=turn_id,
        first_position=first,
        end_position=end,
        agent="assistant",
        due_at=NOON,
        created_at=NOON,
    )
