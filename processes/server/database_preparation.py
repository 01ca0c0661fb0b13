"""Prepares the database for a start."""

import logging
import time

from django.conf import settings
from django.core.management import call_command
from django.db import DatabaseError, connections

from access.users import user_namespace
from database import schema
from processes.errors import StartFailed

WAIT_SECONDS = 60.0
"""How long a start without migrations waits for the job that applies them."""
TRY_SECONDS = 1.0

logger = logging.getLogger(__name__)


def prepare() -> None:
    """Apply missing migrations, or wait for them, and check the namespace.

    Raises `StartFailed`, and `NamespaceMismatch` for a namespace that would hide every
    user's memory.
    """
    try:
        if missing := schema.missing_migrations():
            if settings.COULISSE_MIGRATE:
                logger.info("migrating the database: %s", schema.describe(missing))
                call_command("migrate", verbosity=0, interactive=False)
            else:
                _await_migrations(missing)
        user_namespace.establish()
    except DatabaseError as exc:
        reason = " ".join(str(exc).split())
        raise StartFailed(f"cannot use the database: {reason}") from exc
    finally:
        connections.close_all()


def _await_migrations(missing: list[str]) -> None:
    logger.warning(
        "waiting for `coulisse migrate`, as COULISSE_MIGRATE is off: %s",
        schema.describe(missing),
    )
    deadline = time.monotonic() + WAIT_SECONDS
    while missing := schema.missing_migrations():
        if time.monotonic() > deadline:
            raise StartFailed(
                f"the database lacks {schema.describe(missing)}: run `coulisse "
                "migrate`, or start without --no-migrate and COULISSE_MIGRATE=off"
            )
        time.sleep(TRY_SECONDS)
