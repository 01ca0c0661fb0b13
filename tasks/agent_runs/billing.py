"""Whom background work is charged to."""

import uuid
from datetime import UTC, datetime

from access.errors import CredentialRefused
from access.models import Token
from access.tokens import api_tokens
from access.users import caller
from access.users.caller import Caller


def caller_of(token_id: uuid.UUID | None) -> Caller:
    """Return whom work is charged to that an API token asked for.

    Raises `CredentialRefused` for one that was revoked or has ended since: it begins
    nothing more.
    """
    if token_id is None:
        return caller.OPEN
    row = Token.objects.filter(pk=token_id).first()
    token = None if row is None else api_tokens.find(row.digest, datetime.now(UTC))
    if token is None:
        raise CredentialRefused(
            "The API token that asked for this is revoked, expired or unknown"
        )
    return caller.by_token(token)
