"""Waits for the database at the start of a background process."""

import logging
import time
from collections.abc import Callable

from django.db import DatabaseError, InterfaceError, connections
from django.utils.module_loading import import_string

RETRY_SECONDS = 2.0

logger = logging.getLogger(__name__)


def await_namespace(work: str) -> None:
    """Wait until the database confirms the namespace of the users' ids.

    `work` names what waits, for the log. Raises `NamespaceMismatch` and
    `SecretsInvalid`.
    """
    # By its name, because its models load only after `main` has set up Django.
    establish: Callable[[], object] = import_string(
        "access.users.user_namespace.establish"
    )
    is_logged = False
    while True:
        try:
            establish()
            return
        except (DatabaseError, InterfaceError) as exc:
            if not is_logged:
                reason = " ".join(str(exc).split())
                logger.warning("%s wait for the database: %s", work, reason)
                is_logged = True
            time.sleep(RETRY_SECONDS)
        finally:
            connections.close_all()
