"""What an app declares about its slice of the YAML.

Each app's `config.py` makes one `Section` per top-level key it owns and names it in
`settings.COULISSE_SECTIONS`; nothing else in this layer knows the apps.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar

if TYPE_CHECKING:
    from config.document import Config

T = TypeVar("T")

Location = tuple[str | int, ...]
"""Where something stands in the YAML: `("agents", 2, "provider")`."""


@dataclass(frozen=True, slots=True)
class Problem:
    """Something wrong with the configuration, where it is and how to mend it."""

    location: Location
    message: str
    code: str
    """A stable id such as `coulisse.E012`."""


@dataclass(frozen=True)
class Section(Generic[T]):
    """One top-level key: its shape, its default and its own checks."""

    key: str
    shape: Any
    """A type pydantic can validate; unknown keys are refused by it."""
    default: Callable[[], T]
    """Makes the value when the key is absent."""
    noun: str = ""
    """What one entry is called in messages: `agent`, `provider`."""
    required: bool = False
    check: Callable[[T, "Config"], Iterable[Problem]] | None = None
    """Finds references to other sections that lead nowhere."""
    applies: Literal["live", "restart"] = "live"
    """Whether a running server takes an edit at once."""
