"""Tasks whose workers died: run again or errored, as the YAML has it."""

import logging
from collections.abc import Collection

from config import live
from tasks.config import TASKS
from tasks.queue import lifecycle, task_kinds

logger = logging.getLogger(__name__)


def non_repeatable_kinds() -> Collection[str]:
    """Return the kinds of tasks that are not run again.

    What users asked for, where the operator says so; what is done beside it, such as
    scoring, is begun again in any case.
    """
    return (
        () if live.current().get(TASKS).rerun_interrupted else task_kinds.listed_names()
    )


def recover_leases() -> bool:
    """Close what cannot be run again, and have the rest be taken at once.

    Return whether there may be some of that.
    """
    if left := lifecycle.expire_dead_leases():
        logger.warning("%d tasks were running in a worker that died", left)
    if closed := lifecycle.close_abandoned(once=non_repeatable_kinds()):
        logger.warning("%d tasks were given up with their workers", closed)
    return left > 0
