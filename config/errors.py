"""Problems of `coulisse.yaml` and their stable ids.

| id | what is wrong |
|---|---|
| coulisse.E001 | the file is missing, unreadable, too large or not UTF-8 text |
| coulisse.E002 | the file is empty, or is not a map of keys |
| coulisse.E003 | the YAML cannot be parsed, or uses a feature we refuse (tags) |
| coulisse.E004 | a key appears twice in one map |
| coulisse.E005 | aliases, nesting or length make the document unreasonably large |
| coulisse.E006 | an environment variable is not set |
| coulisse.E007 | `${vars.x}` names nothing under `vars:` |
| coulisse.E008 | a placeholder is not closed, or is not one |
| coulisse.E009 | a value has the wrong type or is out of range |
| coulisse.E010 | a required key is missing |
| coulisse.E011 | a field is not known |
| coulisse.E012 | a top-level key is not known |
| coulisse.E013 | a top-level key is not available in this version |
| coulisse.E014 | the file is right by itself, and not with what the studio says |
| coulisse.E015 | an entry of the studio has another name than its address |
| coulisse.E016 | a mask stands where the file has no secret |
| coulisse.E017 | a text is not a value that could stand there |
| coulisse.E018 | there are more problems than are listed |
| coulisse.E101 and up | what a section checks itself: its `config.py` says |
"""

from collections.abc import Iterable, Sequence

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
PLANNED_KEY = "coulisse.E013"
CONFLICTING_OVERRIDE = "coulisse.E014"
NAME_MISMATCH = "coulisse.E015"
MASKED = "coulisse.E016"
MISPLACED = "coulisse.E017"
MORE_PROBLEMS = "coulisse.E018"

MAX_PROBLEMS = 100
"""The most problems reported for one content."""


def limit_problems(problems: Sequence[Problem]) -> Sequence[Problem]:
    """Return the first problems, and one more with the number of the others."""
    count = len(problems) - MAX_PROBLEMS
    if count <= 0:
        return problems
    more = Problem(
        (), f"{count:,} more problems are not shown: mend these first", MORE_PROBLEMS
    )
    return [*problems[:MAX_PROBLEMS], more]


class ConfigInvalid(Invalid):
    """The configuration of this server is not valid; its log says why."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__(detail="\n".join(map(str, self.problems)))

    def __str__(self) -> str:
        return self.detail


class SecretsInvalid(Unavailable):
    """The keys of this server cannot be read."""

    code = "secrets_invalid"

    def __init__(self, detail: str = "") -> None:
        super().__init__(detail=detail)


class StarterRefused(Invalid):
    """The starter cannot be written there."""


class FileChanged(Conflict):
    """Somebody changed the file since it was shown; look at what it is now."""

    code = "changed_meanwhile"


class FileUnwritable(Denied):
    """The file cannot be written."""

    code = "file_unwritable"


class FileOnlySetting(Denied):
    """This comes from the file, not from the studio."""

    code = "commands_not_allowed"


class EntryUnknown(NotFound):
    """There is no such entry."""


class EntryTaken(Conflict):
    """Another entry has this name already."""

    code = "name_taken"


class EntryChanged(Conflict):
    """Somebody changed the entry since it was shown."""

    code = "changed_meanwhile"


class NothingToReset(Conflict):
    """The studio says nothing about this entry."""

    code = "nothing_to_reset"
