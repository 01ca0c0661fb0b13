"""Recovers tasks whose workers died: they run again or are errored, by the YAML."""

import logging
from collections.abc import Collection

from config import live
from tasks.config import TASKS
from tasks.queue import lifecycle, task_kinds

logger = logging.getLogger(__name__)


def non_repeatable_kinds() -> Collection[str]:
    """Return the kinds of tasks that do not run again.

    These are users' tasks if `rerun_interrupted` is false; auxiliary tasks such as
    scoring always run again.
    """
    return (
        () if live.current().get(TASKS).rerun_interrupted else task_kinds.listed_names()
    )


def recover_leases() -> bool:
    """Close tasks that may not run again, and make the others due at once.

    Return whether there may be some to claim.
    """
    if expired := lifecycle.expire_dead_leases():
        logger.warning("expired the leases of %d tasks of dead workers", expired)
    if closed := lifecycle.close_abandoned(once=non_repeatable_kinds()):
        logger.warning("closed %d tasks of dead workers; not running again", closed)
    return expired > 0
