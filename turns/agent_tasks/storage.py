"""Database access of agent tasks: their token, and completion with the turn."""

import uuid
from collections.abc import Sequence
from datetime import UTC, datetime

from access.errors import CredentialRefused
from access.models import ApiToken
from access.users import caller
from access.users.caller import Caller
from core.ids import TurnId
from core.reply import Reply
from core.trace import Call
from tasks.queue.claimed_task import ClaimedTask


def load_caller(token_id: uuid.UUID) -> Caller:
    """Return the caller that a task with this API token is charged to.

    Raises `CredentialRefused` for a token that was revoked or has expired since.
    """
    row = ApiToken.objects.filter(pk=token_id).first()
    token = None if row is None else row.verified(datetime.now(UTC))
    if token is None:
        raise CredentialRefused(
            "The API token that created this task is revoked, expired or unknown"
        )
    return caller.from_token(token)


def close_with_reply(
    task: ClaimedTask, turn_id: TurnId, reply: Reply, _: Sequence[Call]
) -> None:
    """Complete a task with its agent's reply. Raises `LeaseLost`."""
    task.complete(reply.text or reply.refusal, turn_id=turn_id)


def check_lease(task: ClaimedTask) -> None:
    """Check that the partial reply of an interrupted attempt may be stored.

    Raises `LeaseLost` if its user was erased or another attempt has begun.
    """
    task.lock_lease()
