"""Log levels of single modules, from `COULISSE_LOG_LEVEL` and `telemetry.levels`.

The environment applies from the first line of a process, and wins over the YAML, which
may change while the process runs. The settings import this module.
"""

import logging
from collections.abc import Mapping
from difflib import get_close_matches
from importlib.machinery import PathFinder
from pathlib import Path
from typing import Literal, get_args

from django.conf import settings

Level = Literal["debug", "info", "warning", "error", "critical"]
LEVELS: tuple[str, ...] = get_args(Level)
VARIABLE = "COULISSE_LOG_LEVEL"

_applied: set[str] = set()
"""The loggers whose level is the YAML's."""


def parse_variable(text: str) -> tuple[str, dict[str, str]]:
    """Return the level of all modules, and those of single ones by logger.

    `text` is like `info,providers=debug`. Raises ValueError with the remedy.
    """
    root, modules = "INFO", {}
    for part in filter(None, map(str.strip, text.split(","))):
        module, separator, level = (each.strip() for each in part.rpartition("="))
        if level.lower() not in LEVELS:
            raise ValueError(
                f"{VARIABLE} has '{level}', which is not a level: use "
                "debug, info, warning, error or critical, such as info,providers=debug"
            )
        if not separator:
            root = level.upper()
        elif problem := find_module_problem(module):
            raise ValueError(f"{VARIABLE}: {problem}")
        else:
            modules[module] = level.upper()
    return root, modules


def find_module_problem(name: str) -> str | None:
    """Return why a name is not that of a module with loggers, and the remedy."""
    top, *_ = name.split(".")
    if top.isidentifier() and PathFinder.find_spec(top) is not None:
        return None
    return (
        f"'{name}' is not a module; use a name as in the log, such as providers or "
        f"turns.flow{_did_you_mean(top)}"
    )


def _did_you_mean(name: str) -> str:
    packages = Path(__file__).parents[2].glob("*/__init__.py")
    names = [package.parent.name for package in packages]
    close = get_close_matches(name[:100], names, n=1)
    return f"; did you mean '{close[0]}'?" if close else ""


def apply(levels: Mapping[str, str]) -> None:
    """Set the YAML's levels of loggers, and reset those that it no longer has."""
    fixed = settings.LOGGING["loggers"]
    for name in _applied - levels.keys():
        logging.getLogger(name).setLevel(fixed.get(name, {}).get("level", "NOTSET"))
    _applied.clear()
    for name in levels.keys() - settings.COULISSE_LOG_LEVELS.keys():
        logging.getLogger(name).setLevel(levels[name].upper())
        _applied.add(name)
