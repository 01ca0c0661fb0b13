"""Problems of `coulisse.yaml` and their stable ids.

| id | what is wrong |
|---|---|
| coulisse.E001 | the file is missing, unreadable, too large or not UTF-8 text |
| coulisse.E002 | the file is empty, or is not a map of keys |
| coulisse.E003 | the YAML cannot be parsed, or has a tag, which is not supported |
| coulisse.E004 | a key appears twice in one map |
| coulisse.E005 | aliases, placeholders, nesting or length exceed a limit |
| coulisse.E006 | an environment variable is not set |
| coulisse.E007 | `${vars.x}` is not defined under `vars:` |
| coulisse.E008 | a placeholder is malformed |
| coulisse.E009 | a value has the wrong type or is out of range |
| coulisse.E010 | a required key is missing |
| coulisse.E011 | a field is unknown |
| coulisse.E012 | a top-level key is unknown |
| coulisse.E014 | the file is valid, but conflicts with overrides from the studio |
| coulisse.E015 | the name in an entry differs from the name in its URL |
| coulisse.E016 | a mask was submitted where the file has no secret |
| coulisse.E017 | a submitted text is not a valid value at its place |
| coulisse.E018 | more problems were found than are listed |
| coulisse.E019 | an entry that is in use was disabled or removed |
| coulisse.E020 | an override changes what only the file may set |
| coulisse.E021 | an override of a section that fails closed does not fit |
| coulisse.E101 and up | a section's own checks; its `config.py` lists them |
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace

from config.sections import Problem
from core.errors import Conflict, Denied, Invalid, NotFound, Unavailable

UNREADABLE = "coulisse.E001"
NOT_A_MAP = "coulisse.E002"
SYNTAX = "coulisse.E003"
DUPLICATE_KEY = "coulisse.E004"
TOO_LARGE = "coulisse.E005"
UNSET_VARIABLE = "coulisse.E006"
UNKNOWN_VAR = "coulisse.E007"
BAD_PLACEHOLDER = "coulisse.E008"
WRONG_VALUE = "coulisse.E009"
MISSING = "coulisse.E010"
UNKNOWN_FIELD = "coulisse.E011"
UNKNOWN_KEY = "coulisse.E012"
CONFLICTING_OVERRIDE = "coulisse.E014"
NAME_MISMATCH = "coulisse.E015"
MASKED = "coulisse.E016"
MISPLACED = "coulisse.E017"
MORE_PROBLEMS = "coulisse.E018"
IN_USE = "coulisse.E019"
FILE_ONLY = "coulisse.E020"
FAILS_CLOSED = "coulisse.E021"

MAX_PROBLEMS = 100
"""The most problems reported for one content."""


def limit_problems(problems: Sequence[Problem]) -> Sequence[Problem]:
    """Return the first problems, and one more with the number of the others."""
    count = len(problems) - MAX_PROBLEMS
    if count <= 0:
        return problems
    more = Problem(
        (), f"{count:,} more problems are not shown; fix these first", MORE_PROBLEMS
    )
    return [*problems[:MAX_PROBLEMS], more]


MISSING_TARGET = re.compile(r", (?:which|but) .*\Z", re.DOTALL)
"""The end of a message about a reference: what is wrong with its target."""


def describe_uses(
    problems: Iterable[Problem], noun: str, name: str
) -> Sequence[Problem]:
    """Return the problems of an entry's removal as uses of it, if all of them are."""
    problems = tuple(problems)
    if not all(MISSING_TARGET.search(p.message) for p in problems):
        return problems
    first = Problem(
        (), f"{noun} '{name}' is in use; remove it from these entries first", IN_USE
    )
    uses = [replace(p, message=MISSING_TARGET.sub("", p.message)) for p in problems]
    return [first, *uses]


class ConfigInvalid(Invalid):
    """The server's configuration is invalid. The server's log shows the problems."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__(detail="\n".join(map(str, self.problems)))

    def __str__(self) -> str:
        return self.detail


class SecretsInvalid(Unavailable):
    """The server's secret keys cannot be read."""

    code = "secrets_invalid"

    def __init__(self, detail: str = "") -> None:
        super().__init__(detail=detail)


class StarterRefused(Invalid):
    """The starter file cannot be written."""


class FileChanged(Conflict):
    """The file has changed since you opened it. Reload it, then edit it again."""

    code = "edit_conflict"


class FileUnwritable(Denied):
    """The file cannot be written."""

    code = "file_unwritable"


class FileOnlySetting(Denied):
    """This setting can be changed only in the file, not in the studio."""

    code = "commands_not_allowed"


class SectionReadOnly(Denied):
    """This section can be changed only in the file, or entry by entry."""

    code = "section_read_only"


class EntryUnknown(NotFound):
    """The entry does not exist."""


class EntryTaken(Conflict):
    """Another entry already has this name."""

    code = "name_taken"


class EntryChanged(Conflict):
    """The entry has changed since you opened it. Reload it, then edit it again."""

    code = "edit_conflict"


class NothingToReset(Conflict):
    """The entry has no override to reset."""

    code = "nothing_to_reset"
