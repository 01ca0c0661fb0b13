"""Instructions an agent looks up when it needs them: the YAML's `skills:`.

A turn reads no disk: what is there is read when it is first asked for, and kept fresh
by `Watcher`. Source: "Skills" of the reference.
"""

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ParamSpec

from pydantic import BaseModel, ConfigDict, Field

from agents.skills import lookup_tools
from agents.skills.loader import Directory, Skill
from config.loading import config_diff, reader
from config.sections import Config, Section
from core.tools import Tool

LOOK_SECONDS = 0.5
"""How long an edit of a skill goes unseen."""

P = ParamSpec("P")

logger = logging.getLogger(__name__)


class SkillsConfig(BaseModel):
    """Where skills are found."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    dir: str = Field(
        "./skills",
        min_length=1,
        description="The directory that holds one folder for each skill, each with a "
        "SKILL.md; a relative path starts where this file is. It need not exist.",
    )


SKILLS = Section(key="skills", shape=SkillsConfig, default=SkillsConfig)


@dataclass(frozen=True, slots=True)
class _Known:
    path: Path
    skills: Mapping[str, Skill]


_known: _Known | None = None
_directory: Directory | None = None
_reading = threading.Lock()
_complained: tuple[Config, set[str]] | None = None


def of(config: Config) -> Mapping[str, Skill]:
    """Return the skills by name.

    The directory is read only when it is another than the last: when the process
    starts and after an edit of `skills.dir`. `Watcher` does the rest.
    """
    path = config.path.parent / config.get(SKILLS).dir
    known = _known
    if known is None or known.path != path:
        return _open(path)
    return known.skills


def refresh() -> None:
    """Look at the directory last used, and log what is new in it."""
    with _reading:
        if _directory is not None:
            _read(_directory)


def _open(path: Path) -> Mapping[str, Skill]:
    global _directory, _known
    with _reading:
        if _directory is None or _directory.path != path:
            _directory, _known = Directory(path), None
        return _read(_directory)


def _read(directory: Directory) -> Mapping[str, Skill]:
    global _known
    before = {} if _known is None else _known.skills
    skills = directory.load()
    if told := config_diff.entries(before, skills):
        logger.info("skills in %s: %s", reader.label(directory.path), told)
    _known = _Known(directory.path, skills)
    return skills


def tools(config: Config, names: Sequence[str]) -> list[Tool]:
    """Return one agent's tools for the skills it lists: each, and their files.

    Names of none are left out, and logged once for each edit of the YAML.
    """
    if not names:
        return []
    skills = of(config)
    for name in names:
        if name not in skills:
            _complain(config, name, skills)
    return lookup_tools.make({name: skills[name] for name in names if name in skills})


def _complain(config: Config, name: str, skills: Mapping[str, Skill]) -> None:
    global _complained
    if _complained is None or _complained[0] is not config:
        _complained = (config, set())
    if name in _complained[1]:
        return
    _complained[1].add(name)
    logger.warning(
        "skill '%s', which an agent lists, is not in %s; there are: %s",
        name,
        config.get(SKILLS).dir,
        ", ".join(skills) or "none",
    )


class Watcher:
    """Keeps the skills fresh, from a thread of its own.

    It looks again and again, which also sees what no file system reports: a directory
    that is not there yet or that is swapped, a mount, a share. A look costs about
    7 µs a file; only a SKILL.md that changed is read.
    """

    def __init__(self, config: Config) -> None:
        self._config = config
        self._stop = threading.Event()
        self._thread = threading.Thread(
            target=self._run, name="skills-watcher", daemon=True
        )

    def start(self) -> None:
        """Read the skills, and begin to watch."""
        _without_fail(of, self._config)
        self._thread.start()

    def stop(self) -> None:
        """End the thread, and wait for it."""
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stop.wait(LOOK_SECONDS):
            _without_fail(refresh)


def _without_fail(look: Callable[P, object], *args: P.args, **kwargs: P.kwargs) -> None:
    """Look; a fault of ours neither stops the server from starting nor the watch."""
    try:
        look(*args, **kwargs)
    except Exception:
        logger.exception("could not look for skills")
