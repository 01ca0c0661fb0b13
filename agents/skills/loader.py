"""The directory of skills: each folder with a SKILL.md is a skill."""

import logging
import re
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from agents.skills import parser, skill_files
from agents.skills.parser import SkillInvalid, SkillText
from agents.skills.skill_files import MAX_DEPTH, MAX_FILES, SKILL_FILE, FolderListing
from config.loading import reader

READ_TOOL = "skill_file"
"""The name of the tool that reads bundled files; skills cannot use it."""

MAX_SKILL_BYTES = 256 * 1024
MAX_DESCRIPTION_LENGTH = 1024
"""Characters of a tool description that every provider accepts."""
TIMESTAMP_GRANULARITY_SECONDS = 2.0
"""The time within which two changes can leave equal timestamps in the file system."""

NAME_PATTERN = re.compile(r"[A-Za-z0-9_-]{1,64}")

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Skill:
    name: str
    """The name that agents and models use."""
    description: str
    body: str
    directory: Path
    """The directory that contains all skills."""
    folder: str
    """The name of its folder in `directory`."""
    files: Mapping[str, int]
    """The size of each bundled file in bytes, by its path in the folder."""

    def read_file(self, path: str, max_bytes: int) -> bytes:
        """Return the first `max_bytes` bytes of a bundled file, read now.

        Raises `OSError` if the file was deleted or became a link.
        """
        steps = [self.folder, *path.split("/")]
        return skill_files.read_file(self.directory, steps, max_bytes)


@dataclass(frozen=True, slots=True)
class FolderScan:
    listing: FolderListing
    read_at: float
    skill: Skill | None
    problems: Sequence[str]


class SkillDirectory:
    """Loads the skills of a directory, and reloads those that changed."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._scans: dict[str, FolderScan] = {}
        self._logged: set[str] = set()
        self.skills: Mapping[str, Skill] = {}
        """By name."""

    def load(self) -> None:
        """Update the skills; invalid ones are skipped and logged once."""
        folders, problems = self._list_folders()
        scans = {folder: self._scan(folder) for folder in folders}
        self._scans = {f: scan for f, scan in scans.items() if scan}
        for scan in self._scans.values():
            problems += scan.problems
        skills: dict[str, Skill] = {}
        for scan in self._scans.values():
            if (skill := scan.skill) is None:
                continue
            if (first := skills.setdefault(skill.name, skill)) is not skill:
                problems.append(
                    f"{self._label(skill.folder)}: '{first.folder}' already has the "
                    f"name '{skill.name}'; the skill is skipped until you rename one"
                )
        self._log_problems(problems)
        self.skills = skills

    def _list_folders(self) -> tuple[list[str], list[str]]:
        """Return the names of the folders, and the problems of others."""
        try:
            entries = skill_files.list_visible(self.path)
        except FileNotFoundError:
            return [], []
        except OSError as exc:
            return [], [f"{self._label()}: {_unreadable_message(exc)}; see skills.dir"]
        folders = [e.name for e in entries if e.is_dir(follow_symlinks=False)]
        links = [e.name for e in entries if e.is_symlink() and e.is_dir()]
        return folders, [_link_message(self._label(name)) for name in links]

    def _scan(self, folder: str) -> FolderScan | None:
        """Return the scan of a folder, or None if it has no skill."""
        try:
            listing = skill_files.list_folder(self.path / folder)
        except OSError as exc:
            problem = f"{self._label(folder)}: {_unreadable_message(exc)}"
            nothing = FolderListing({}, (), is_truncated=False)
            return FolderScan(nothing, 0, None, [problem])
        previous = self._scans.get(folder)
        if previous and previous.listing == listing and _is_settled(previous):
            return previous
        if SKILL_FILE not in (*listing.files, *listing.links):
            return None
        return self._load_folder(folder, listing)

    def _load_folder(self, folder: str, listing: FolderListing) -> FolderScan:
        now = time.time()
        problems = [_link_message(self._label(folder, link)) for link in listing.links]
        if listing.is_truncated:
            problems.append(
                f"{self._label(folder)}: it has more than {MAX_FILES} files, or "
                f"folders nested more than {MAX_DEPTH} levels deep; the rest is ignored"
            )
        skill, label = None, self._label(folder, SKILL_FILE)
        try:
            if SKILL_FILE in listing.files:
                skill = self._build_skill(folder, listing, self._read_text(folder))
        except SkillInvalid as exc:
            problems.append(f"{label}: {exc}; the skill is skipped")
        except OSError as exc:
            problems.append(
                f"{label}: {_unreadable_message(exc)}; the skill is skipped"
            )
        if skill is not None and len(skill.description) > MAX_DESCRIPTION_LENGTH:
            problems.append(
                f"{label}: models receive only the first {MAX_DESCRIPTION_LENGTH} "
                "characters of its description; shorten it"
            )
        return FolderScan(listing, now, skill, problems)

    def _read_text(self, folder: str) -> SkillText:
        steps = [folder, SKILL_FILE]
        content = skill_files.read_file(self.path, steps, MAX_SKILL_BYTES + 1)
        if len(content) > MAX_SKILL_BYTES:
            raise SkillInvalid(
                f"it is larger than {MAX_SKILL_BYTES // 1024} KiB; move parts of it to "
                "other files in its folder"
            )
        return parser.parse(content)

    def _build_skill(
        self, folder: str, listing: FolderListing, text: SkillText
    ) -> Skill:
        sizes = {path: stamp.size for path, stamp in listing.files.items()}
        del sizes[SKILL_FILE]
        name = _tool_name(text.name, folder)
        return Skill(name, text.description, text.body, self.path, folder, sizes)

    def _label(self, *steps: str) -> str:
        return _printable(reader.display_path(self.path.joinpath(*steps)))

    def _log_problems(self, problems: Iterable[str]) -> None:
        now = dict.fromkeys(problems)
        for problem in now:
            if problem not in self._logged:
                logger.warning("%s", problem)
        self._logged = set(now)


def _is_settled(scan: FolderScan) -> bool:
    """Whether another change of SKILL.md would change its timestamps."""
    stamp = scan.listing.files.get(SKILL_FILE)
    if stamp is None:
        return True
    return abs(scan.read_at - stamp.modified_ns / 1e9) > TIMESTAMP_GRANULARITY_SECONDS


def _tool_name(configured: str | None, folder: str) -> str:
    name = folder if configured is None else configured
    if NAME_PATTERN.fullmatch(name) is None:
        raise SkillInvalid(
            f"'{_printable(name)}' is not a valid tool name; set 'name:' in its "
            "frontmatter to at most 64 letters, digits, '_' and '-'"
        )
    if name == READ_TOOL:
        raise SkillInvalid(
            f"'{READ_TOOL}' is the name of a built-in tool; set another 'name:'"
        )
    return name


def _printable(text: str) -> str:
    return text.encode(errors="replace").decode()


def _unreadable_message(exc: OSError) -> str:
    return f"cannot be read: {exc.strerror or exc}"


def _link_message(label: str) -> str:
    return f"{label}: symbolic links are not followed; copy the files instead"
