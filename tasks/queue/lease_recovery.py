"""Tasks whose workers died: claimed again or errored, as the YAML says."""

import logging
from collections.abc import Collection

from config import live
from tasks.config import TASKS
from tasks.queue import lifecycle, task_kinds

logger = logging.getLogger(__name__)


def non_repeatable_kinds() -> Collection[str]:
    """Return the kinds of tasks that do not run again.

    Tasks of users, if the operator says so; auxiliary tasks such as scoring always run
    again.
    """
    return (
        () if live.current().get(TASKS).rerun_interrupted else task_kinds.listed_names()
    )


def recover_leases() -> bool:
    """Close tasks that may not run again, and make the others due at once.

    Return whether there may be some to claim.
    """
    if left := lifecycle.expire_dead_leases():
        logger.warning("%d tasks were running in a worker that died", left)
    if closed := lifecycle.close_abandoned(once=non_repeatable_kinds()):
        logger.warning("%d tasks were given up with their workers", closed)
    return left > 0
