"""The rows of a task that is a turn: the token it is charged to, and its own, which
is closed in the transaction of the turn.
"""

import uuid
from collections.abc import Sequence
from datetime import UTC, datetime

from access.errors import CredentialRefused
from access.models import ApiToken
from access.tokens import api_tokens
from access.users import caller
from access.users.caller import Caller
from core.ids import TurnId
from core.reply import Reply
from core.trace import Call
from tasks.queue import lifecycle
from tasks.queue.claimed_task import ClaimedTask


def load_caller(token_id: uuid.UUID | None) -> Caller:
    """Return whom work is charged to that an API token asked for.

    Raises `CredentialRefused` for one that was revoked or has ended since: it begins
    nothing more.
    """
    if token_id is None:
        return caller.ANONYMOUS
    row = ApiToken.objects.filter(pk=token_id).first()
    token = (
        None
        if row is None
        else api_tokens.find_by_digest(row.digest, datetime.now(UTC))
    )
    if token is None:
        raise CredentialRefused(
            "The API token that asked for this is revoked, expired or unknown"
        )
    return caller.from_token(token)


def close_with_reply(
    task: ClaimedTask, turn_id: TurnId, reply: Reply, _: Sequence[Call]
) -> None:
    """Close a task with what its agent said; raises `lifecycle.Gone`."""
    lifecycle.complete(task, reply.text or reply.refusal, turn_id=turn_id)


def hold(task: ClaimedTask) -> None:
    """Let what an attempt that broke off said be stored; raises `lifecycle.Gone`.

    Not where its user was erased meanwhile, nor where another attempt has begun.
    """
    lifecycle.lock_leased(task)
