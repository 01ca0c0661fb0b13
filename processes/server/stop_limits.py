"""How long the processes of a server may take to stop."""

from config.config import SERVER
from config.errors import ConfigInvalid
from config.loading import last_valid_copy, loader
from config.sections import Config
from tasks.config import TASKS

CLEANUP_SECONDS = 3.0
"""Time after a drain to store what was cut off, and to release tasks."""
LAST_SECONDS = 9.0
"""Time for the processes that the others need: sidecars, broker and local model."""
UNSERVED_SECONDS = 9.0
"""Time of a server that has not answered yet, so that it has nothing to finish."""


def drain_limit(config: Config, *, has_worker: bool) -> float:
    """Return when web and worker have ended, in seconds after the signal."""
    server = config.get(SERVER)
    seconds = server.lame_duck_seconds + server.drain_seconds
    if has_worker:
        seconds = max(seconds, config.get(TASKS).drain_seconds)
    return seconds + CLEANUP_SECONDS


def edited_drain_limit(*, has_worker: bool) -> float:
    """Return the limit of the YAML that the processes use by now; 0 if there is none.

    A worker follows edits while its supervisor runs.
    """
    content = last_valid_copy.read_copy()
    if content is None:
        return 0.0
    try:
        config = loader.parse_sections(content, (SERVER, TASKS))
        return drain_limit(config, has_worker=has_worker)
    except ConfigInvalid:
        return 0.0
