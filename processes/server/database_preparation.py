"""Prepares the database for a start."""

from django.core.management import call_command
from django.db import DatabaseError, connections

from access.users import user_namespace
from processes.errors import StartFailed


def prepare() -> None:
    """Apply the migrations, and check the namespace.

    Raises `NamespaceMismatch` for one that would hide every user's memory.
    """
    try:
        call_command("migrate", verbosity=0, interactive=False)
        user_namespace.establish()
    except DatabaseError as exc:
        reason = " ".join(str(exc).split())
        raise StartFailed(f"cannot use the database: {reason}") from exc
    finally:
        connections.close_all()
