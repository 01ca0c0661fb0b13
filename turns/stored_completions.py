"""Turns of chat completions with `store: true`, which their client can list."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

from core.ids import TurnId, UserId
from core.reply import Reply
from core.trace import Call
from memory.models import StoredCompletion
from turns import stored_turns
from turns.stored_turns import StoredTurn


@dataclass(frozen=True, slots=True)
class CompletionTurn:
    """A turn that its client can list."""

    turn: StoredTurn
    metadata: Mapping[str, str]


def record_completion(
    user_id: UserId,
    turn_id: TurnId,
    metadata: Mapping[str, str],
    _reply: Reply,
    _calls: Sequence[Call],
) -> None:
    """Record that its client can list a turn: `on_end` of `TurnRequest`."""
    StoredCompletion.objects.record(user_id, turn_id, metadata)


def read(user_id: UserId, turn_id: TurnId) -> CompletionTurn | None:
    """Return a user's turn if it is listed."""
    found = StoredCompletion.objects.of_turn(user_id, turn_id)
    return None if found is None else _with_turn(user_id, turn_id, found)


def set_metadata(
    user_id: UserId, turn_id: TurnId, metadata: Mapping[str, str]
) -> CompletionTurn | None:
    """Replace the metadata of a listed turn; None if it is not listed."""
    found = StoredCompletion.objects.of_turn(user_id, turn_id)
    if found is None:
        return None
    found.set_metadata(metadata)
    return _with_turn(user_id, turn_id, found)


def delete(user_id: UserId, turn_id: TurnId) -> TurnId | None:
    """Delete the messages of a listed turn; None if it is not listed."""
    if StoredCompletion.objects.of_turn(user_id, turn_id) is None:
        return None
    return turn_id if stored_turns.delete_turn(user_id, turn_id) else None


def find_cursor(turn_id: TurnId, user_id: UserId) -> int | None:
    """Return where a list continues after a turn; None if it is not listed."""
    found = StoredCompletion.objects.of_turn(user_id, turn_id)
    return None if found is None else found.pk


def read_page(
    user_id: UserId,
    *,
    agent: str | None,
    metadata: Mapping[str, str],
    after: int | None,
    is_descending: bool,
    limit: int,
) -> Sequence[CompletionTurn]:
    """Return the first listed turns after a cursor, with these values."""
    rows = StoredCompletion.objects.of_user(
        user_id, agent=agent, after=after, is_descending=is_descending
    )
    # Databases differ in the keys of JSON that they find.
    rows = (row for row in rows if metadata.items() <= row.metadata.items())
    page: list[CompletionTurn] = []
    while batch := list(islice(rows, limit - len(page))):
        page += _with_turns(user_id, batch)
    return page


def _with_turns(
    user_id: UserId, rows: Sequence[StoredCompletion]
) -> Iterator[CompletionTurn]:
    """Yield those turns that were not deleted meanwhile."""
    metadata = {TurnId(row.message.turn_id): row.metadata for row in rows}
    turns = stored_turns.read_turns(user_id, list(metadata))
    for turn_id, each in metadata.items():
        if turn_id in turns:
            yield CompletionTurn(turns[turn_id], each)


def _with_turn(
    user_id: UserId, turn_id: TurnId, completion: StoredCompletion
) -> CompletionTurn | None:
    turn = stored_turns.read_turn(user_id, turn_id)
    return None if turn is None else CompletionTurn(turn, completion.metadata)
