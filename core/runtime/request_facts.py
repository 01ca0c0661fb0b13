"""Facts of the current request for the request log, collected while it is served."""

from contextvars import ContextVar
from typing import Any

current: ContextVar[dict[str, Any] | None] = ContextVar("request_facts", default=None)
"""None outside a request, and while the request log is off."""


def note(**facts: Any) -> None:
    """Add facts, by the name of their field; a later value replaces an earlier one."""
    known = current.get()
    if known is not None:
        known |= facts
