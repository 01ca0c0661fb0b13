"""Skills: instructions that an agent looks up on demand, the YAML's `skills:`.

A turn does not read the disk: skills are read on first use, and `SkillWatcher`
refreshes them. Source: "Skills" of the reference.
"""

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import ParamSpec

from pydantic import BaseModel, ConfigDict, Field

from agents.skills import lookup_tools
from agents.skills.loader import Skill, SkillDirectory
from config.loading import config_diff, reader
from config.sections import Config, Section
from core.tools import Tool

POLL_SECONDS = 0.5
"""The longest delay until an edit of a skill is seen."""

P = ParamSpec("P")

logger = logging.getLogger(__name__)


class SkillsConfig(BaseModel):
    """The directory of skills."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    dir: str = Field(
        "./skills",
        min_length=1,
        description="The directory with one folder per skill, each with a SKILL.md. "
        "It may be missing; a relative path starts at this file's directory.",
    )


SKILLS = Section(
    key="skills",
    shape=SkillsConfig,
    default=SkillsConfig,
    description="instructions agents can look up",
)


_directory: SkillDirectory | None = None
_lock = threading.Lock()
_logged_missing: tuple[Config, set[str]] | None = None


def get_skills(config: Config) -> Mapping[str, Skill]:
    """Return the skills by name.

    This reads the directory only if it differs from the last one: at process start and
    after an edit of `skills.dir`. Later changes are loaded by `SkillWatcher`.
    """
    path = config.path.parent / config.get(SKILLS).dir
    directory = _directory
    if directory is None or directory.path != path:
        directory = _open_directory(path)
    return directory.skills


def refresh() -> None:
    """Rescan the directory last used, and log new problems."""
    with _lock:
        if _directory is not None:
            _load(_directory)


def _open_directory(path: Path) -> SkillDirectory:
    global _directory
    with _lock:
        if _directory is None or _directory.path != path:
            opened = SkillDirectory(path)
            _load(opened)
            _directory = opened
        return _directory


def _load(directory: SkillDirectory) -> None:
    before = directory.skills
    directory.load()
    if changes := config_diff.describe_entry_changes(before, directory.skills):
        logger.info("skills in %s: %s", reader.display_path(directory.path), changes)


def make_tools(config: Config, names: Sequence[str]) -> list[Tool]:
    """Return one agent's tools: one per listed skill, and one for their files.

    Unknown names are skipped, and logged once per edit of the YAML.
    """
    if not names:
        return []
    skills = get_skills(config)
    for name in names:
        if name not in skills:
            _log_missing(config, name, skills)
    return lookup_tools.make_tools(
        {name: skills[name] for name in names if name in skills}
    )


def _log_missing(config: Config, name: str, skills: Mapping[str, Skill]) -> None:
    global _logged_missing
    if _logged_missing is None or _logged_missing[0] is not config:
        _logged_missing = (config, set())
    if name in _logged_missing[1]:
        return
    _logged_missing[1].add(name)
    logger.warning(
        "an agent lists skill '%s', which is not in %s; available skills: %s",
        name,
        config.get(SKILLS).dir,
        ", ".join(skills) or "none",
    )


class SkillWatcher:
    """Refreshes the skills from a background thread.

    It polls, because a file system reports no events for a directory that does not
    exist yet or is swapped, for a mount, or for a network share. A scan costs about 7
    µs per file; only a changed SKILL.md is read.
    """

    def __init__(self, config: Config) -> None:
        self._config = config
        self._stop = threading.Event()
        self._thread = threading.Thread(
            target=self._run, name="skills-watcher", daemon=True
        )

    def start(self) -> None:
        """Load the skills and start watching."""
        _log_exceptions(get_skills, self._config)
        self._thread.start()

    def stop(self) -> None:
        """Stop the thread and wait for it."""
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stop.wait(POLL_SECONDS):
            _log_exceptions(refresh)


def _log_exceptions(
    function: Callable[P, object], *args: P.args, **kwargs: P.kwargs
) -> None:
    """Call `function` and log its exceptions, so that a bug here stops neither the
    server start nor the watcher."""
    try:
        function(*args, **kwargs)
    except Exception:
        logger.exception("could not load the skills")
