"""A task as its handler receives it: one attempt, under a lease.

Async handlers read its fields, and call its verbs through the database executor.
"""

from tasks.models import Task as ClaimedTask

__all__ = ["ClaimedTask"]
