"""What a search asks, and what each way of looking finds."""

from dataclasses import dataclass, field

from memory import lexicon
from memory.known import Category, Embedded, Query, Status

DEPTH = 100
"""How many passages each way of looking may find."""


@dataclass(frozen=True, slots=True)
class Question:
    """A query, taken apart once."""

    terms: list[str]
    """Each once."""
    embedded: Embedded | None
    floor: float

    @property
    def is_empty(self) -> bool:
        return not self.terms and self.embedded is None


@dataclass(frozen=True, slots=True)
class Among:
    """Which facts are meant; None is any."""

    category: Category | None = None
    status: Status | None = "active"

    @property
    def given(self) -> dict[str, str]:
        """The columns that must have a value."""
        asked = {"category": self.category, "status": self.status}
        return {name: value for name, value in asked.items() if value is not None}


@dataclass(slots=True)
class Legs:
    """Passage ids with their scores, of each way at most `DEPTH`, in no order."""

    similarity: dict[int, float] = field(default_factory=dict)
    terms: dict[int, float] = field(default_factory=dict)
    window: dict[int, float] = field(default_factory=dict)
    questions: set[int] = field(default_factory=set)
    """Those that only ask."""


def question_of(query: Query) -> Question:
    """Return what to look for."""
    return Question(
        list(dict.fromkeys(lexicon.terms(query.text))), query.embedded, query.floor
    )
