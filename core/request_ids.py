"""The name of the request that is being answered, for whoever says something of it."""

from contextvars import ContextVar

current: ContextVar[str] = ContextVar("request_id", default="")
"""Empty outside a request. A task inherits it; a thread is told."""
