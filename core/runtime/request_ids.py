"""The id of the current request, for logs and responses."""

import os
import re
from contextvars import ContextVar

ACCEPTED_ID = re.compile(rb"[A-Za-z0-9._:/+=@-]{1,128}")
"""The ids that clients may choose: characters without a special meaning in a header, a
log line or a page."""

current: ContextVar[str] = ContextVar("request_id", default="")
"""Empty outside a request. Tasks inherit it; threads must receive it explicitly."""


def assign_request_id(client_id: bytes | None) -> str:
    """Set the id of this task's request: the client's if valid, else a new one."""
    if client_id is not None and ACCEPTED_ID.fullmatch(client_id):
        request_id = client_id.decode("ascii")
    else:
        request_id = f"req_{os.urandom(16).hex()}"
    current.set(request_id)
    return request_id
