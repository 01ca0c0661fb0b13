"""The name of the request that is being answered, for whoever says something of it."""

import os
import re
from contextvars import ContextVar

ACCEPTED_ID = re.compile(rb"[A-Za-z0-9._:/+=@-]{1,128}")
"""What a client may call its request: nothing that could mean more than a name does,
in a header, a line of a log or a page."""

current: ContextVar[str] = ContextVar("request_id", default="")
"""Empty outside a request. A task inherits it; a thread is told."""


def assign_request_id(given: bytes | None) -> str:
    """Name the request this task answers, as its client does if that is a name."""
    if given is not None and ACCEPTED_ID.fullmatch(given):
        name = given.decode("ascii")
    else:
        name = f"req_{os.urandom(16).hex()}"
    current.set(name)
    return name
