"""What clients call a fact: `mem_` and its id."""

import re
import uuid

from memory.errors import FactUnknown

PREFIX = "mem_"
PATTERN = re.compile(rf"{PREFIX}([0-9a-f]{{32}})", re.ASCII)


def format_fact_id(fact_id: uuid.UUID) -> str:
    """Return the name clients know a fact by: `mem_` and 32 hexadecimal digits."""
    return PREFIX + fact_id.hex


def parse_fact_id(name: str) -> uuid.UUID | None:
    """Return the id a name stands for, or None where it stands for none."""
    found = PATTERN.fullmatch(name)
    return uuid.UUID(found[1]) if found else None


def require_fact_id(name: str) -> uuid.UUID:
    """Return the id; what is none is one nobody has: raises `FactUnknown`."""
    fact_id = parse_fact_id(name)
    if fact_id is None:
        raise FactUnknown
    return fact_id
