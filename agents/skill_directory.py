"""The directory of skills on disk: what is there, and reading it without leaving it.

A skill is known by what its folder holds when it is looked at. Symbolic links are
followed nowhere below the directory, neither when it is looked at nor when a file is
read, so no edit of theirs leads a model to other files.
"""

import logging
import os
import re
import stat
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from agents import skill_text
from agents.skill_text import MAX_DESCRIPTION_LENGTH, SkillBroken
from config.reader import label

SKILL_FILE = "SKILL.md"
READER = "skill_file"
"""The name of the tool that reads bundled files, which no skill may have."""

MAX_SKILL_BYTES = 256 * 1024
MAX_FILES = 500
"""Files of one skill that are looked at."""
MAX_DEPTH = 8
UNSETTLED_SECONDS = 2.0
"""How long after a change a further one may bear the same time."""

NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")

logger = logging.getLogger(__name__)

Stamp = tuple[int, ...]
"""What changes when a file does."""


@dataclass(frozen=True, slots=True)
class Skill:
    """A skill as it was found."""

    name: str
    """What agents and models call it."""
    description: str
    body: str
    directory: Path
    """The directory of all skills."""
    folder: str
    """The name of its own folder in there."""
    files: Mapping[str, int]
    """The size in bytes of each bundled file, by its path in the folder."""

    def read(self, path: str, most: int) -> bytes:
        """Return the first bytes of one of its files, as it is now.

        Raises `OSError` for what is not there any more, and for what became a link.
        """
        return read(self.directory, [self.folder, *path.split("/")], most)


def read(directory: Path, steps: Sequence[str], most: int) -> bytes:
    """Return the first bytes of a file below a directory, following no link."""
    folder = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        for step in steps[:-1]:
            flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW
            below = os.open(step, flags, dir_fd=folder)
            os.close(folder)
            folder = below
        # A pipe would keep us waiting for someone to write to it.
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK
        file = os.open(steps[-1], flags, dir_fd=folder)
    finally:
        os.close(folder)
    try:
        if not stat.S_ISREG(os.fstat(file).st_mode):
            raise OSError("it is not a file")
        with os.fdopen(file, "rb", closefd=False) as opened:
            return opened.read(most)
    finally:
        os.close(file)


@dataclass(frozen=True, slots=True)
class Seen:
    """What a look at a folder showed."""

    files: Mapping[str, Stamp]
    links: Sequence[str]
    is_cut: bool
    """Whether there is more than was looked at."""


@dataclass(frozen=True, slots=True)
class Finding:
    """What was made of a folder."""

    seen: Seen
    read_at: float
    skill: Skill | None
    complaints: Sequence[str]


class Directory:
    """Reads the skills of a directory, and again what changed since."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._findings: dict[str, Finding] = {}
        self._told: set[str] = set()

    def read(self) -> dict[str, Skill]:
        """Return the skills by name; what is wrong is logged once."""
        folders, complaints = self._folders()
        self._findings = {
            name: finding
            for name in folders
            if (finding := self._finding(name)) is not None
        }
        skills: dict[str, Skill] = {}
        for folder, finding in self._findings.items():
            complaints += finding.complaints
            skill = finding.skill
            if skill is None:
                continue
            if skill.name in skills:
                complaints.append(
                    f"{self._label(folder)}: '{skills[skill.name].folder}' is already "
                    f"called '{skill.name}'; it is left out until one is renamed"
                )
            else:
                skills[skill.name] = skill
        self._tell(complaints)
        return skills

    def _folders(self) -> tuple[list[str], list[str]]:
        """Return the names of the folders, and what is wrong with others."""
        try:
            with os.scandir(self.path) as entries:
                visible = [entry for entry in entries if not _is_hidden(entry.name)]
        except FileNotFoundError:
            return [], []
        except OSError as exc:
            reason = exc.strerror or str(exc)
            return [], [f"{label(self.path)}: cannot be read: {reason}; see skills.dir"]
        folders = [e.name for e in visible if e.is_dir(follow_symlinks=False)]
        links = [e.name for e in visible if e.is_symlink() and e.is_dir()]
        return sorted(folders), [_linked(self._label(name)) for name in sorted(links)]

    def _finding(self, folder: str) -> Finding | None:
        """Return what is made of a folder; None for one that holds no skill."""
        try:
            seen = look(self.path / folder)
        except OSError as exc:
            seen = Seen({}, (), is_cut=False)
            reason = exc.strerror or str(exc)
            complaint = f"{self._label(folder)}: cannot be read: {reason}"
            return Finding(seen, 0, None, [complaint])
        before = self._findings.get(folder)
        if before is not None and before.seen == seen and _is_settled(before):
            return before
        return self._judge(folder, seen)

    def _judge(self, folder: str, seen: Seen) -> Finding | None:
        now = time.time()
        complaints = [_linked(self._label(folder, link)) for link in seen.links]
        if SKILL_FILE not in seen.files:
            for path in seen.files:
                if path.lower() == SKILL_FILE.lower():
                    place = self._label(folder, path)
                    complaints.append(f"{place}: rename it to {SKILL_FILE}")
            is_none = not complaints or SKILL_FILE not in seen.links
            if is_none and not any("rename" in each for each in complaints):
                return None
            return Finding(seen, now, None, complaints)
        if seen.is_cut:
            complaints.append(
                f"{self._label(folder)}: only {MAX_FILES} of its files, and those "
                f"at most {MAX_DEPTH} folders deep, can be read; move the others away"
            )
        place = self._label(folder, SKILL_FILE)
        try:
            skill = self._skill(folder, seen)
        except SkillBroken as exc:
            complaints.append(f"{place}: {exc}; the skill is left out")
            skill = None
        except OSError as exc:
            reason = exc.strerror or str(exc)
            complaints.append(f"{place}: cannot be read: {reason}")
            skill = None
        if skill is not None and len(skill.description) == MAX_DESCRIPTION_LENGTH:
            complaints.append(
                f"{place}: its description is cut after {MAX_DESCRIPTION_LENGTH} "
                "characters; shorten it"
            )
        return Finding(seen, now, skill, complaints)

    def _skill(self, folder: str, seen: Seen) -> Skill:
        content = read(self.path, [folder, SKILL_FILE], MAX_SKILL_BYTES + 1)
        if len(content) > MAX_SKILL_BYTES:
            raise SkillBroken(
                f"it is larger than {MAX_SKILL_BYTES // 1024} KiB; move parts of it to "
                "files beside it"
            )
        text = skill_text.parse(content)
        return Skill(
            _name(text.name, folder),
            text.description[:MAX_DESCRIPTION_LENGTH],
            text.body,
            self.path,
            folder,
            {
                path: stamp[0]
                for path, stamp in seen.files.items()
                if path != SKILL_FILE
            },
        )

    def _label(self, folder: str, path: str = "") -> str:
        place = label(self.path / folder / path)
        return place.encode(errors="replace").decode()

    def _tell(self, complaints: Sequence[str]) -> None:
        for complaint in complaints:
            if complaint not in self._told:
                logger.warning("%s", complaint)
        self._told = set(complaints)


def look(folder: Path) -> Seen:
    """Return what a folder holds, hidden things left out."""
    files: dict[str, Stamp] = {}
    links: list[str] = []
    entries = list(islice(_walk(folder, "", 0), MAX_FILES + 1))
    for path, entry in entries[:MAX_FILES]:
        if entry is None or not _is_utf8(path):
            continue
        if entry.is_symlink():
            links.append(path)
        elif entry.is_file(follow_symlinks=False):
            files[path] = _stamp(entry)
    is_cut = len(entries) > MAX_FILES or any(e is None for _, e in entries)
    return Seen(files, links, is_cut)


def _walk(
    folder: Path, prefix: str, depth: int
) -> Iterator[tuple[str, os.DirEntry[str] | None]]:
    """Yield each thing by its path, files first; None is a folder that is too deep."""
    with os.scandir(folder) as found:
        entries = [entry for entry in found if not _is_hidden(entry.name)]
    entries.sort(key=lambda entry: (entry.is_dir(follow_symlinks=False), entry.name))
    for entry in entries:
        path = prefix + entry.name
        if not entry.is_dir(follow_symlinks=False):
            yield path, entry
        elif depth < MAX_DEPTH:
            yield from _walk(folder / entry.name, f"{path}/", depth + 1)
        else:
            yield path, None


def _is_hidden(name: str) -> bool:
    return name.startswith(".")


def _is_utf8(path: str) -> bool:
    """Whether a path can be written in JSON; others cannot be asked for."""
    try:
        path.encode()
    except UnicodeEncodeError:
        return False
    return True


def _stamp(entry: os.DirEntry[str]) -> Stamp:
    status = entry.stat(follow_symlinks=False)
    return (status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino)


def _is_settled(finding: Finding) -> bool:
    """Whether a further change of SKILL.md would have changed its times."""
    stamp = finding.seen.files.get(SKILL_FILE)
    return stamp is None or stamp[1] / 1e9 < finding.read_at - UNSETTLED_SECONDS


def _name(given: str | None, folder: str) -> str:
    name = folder if given is None else given
    if NAME.fullmatch(name) is None:
        shown = name.encode(errors="replace").decode()
        raise SkillBroken(
            f"'{shown}' cannot be the name of a tool; set 'name:' in its frontmatter "
            "to at most 64 letters, digits, '_' and '-'"
        )
    if name == READER:
        raise SkillBroken(f"a skill cannot be called '{READER}'; rename it")
    return name


def _linked(place: str) -> str:
    return f"{place}: symbolic links are not followed; put the files themselves there"
