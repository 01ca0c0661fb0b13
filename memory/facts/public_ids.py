"""Public ids of facts: `mem_` and the id."""

import re
import uuid

from core.text.sanitization import escape_and_truncate
from memory.errors import FactUnknown

PREFIX = "mem_"
PATTERN = re.compile(rf"{PREFIX}([0-9a-f]{{32}})", re.ASCII)


def format_fact_id(fact_id: uuid.UUID) -> str:
    """Return a fact's public id: `mem_` and 32 hexadecimal digits."""
    return PREFIX + fact_id.hex


def parse_fact_id(name: str) -> uuid.UUID | None:
    """Return the id of a public id, or None if it is malformed."""
    match = PATTERN.fullmatch(name)
    return uuid.UUID(match[1]) if match else None


def require_fact_id(name: str) -> uuid.UUID:
    """Return the id of a public id; raises `FactUnknown` if it is malformed."""
    fact_id = parse_fact_id(name)
    if fact_id is None:
        raise FactUnknown(
            f"'{escape_and_truncate(name)}' is not the id of a fact, which is "
            f"{PREFIX} and 32 hexadecimal digits"
        )
    return fact_id


def read_fact_id(name: str) -> uuid.UUID:
    """Return the id of a public id from a model; raises `FactUnknown`, which says where
    to find one."""
    fact_id = parse_fact_id(name)
    if fact_id is None:
        raise FactUnknown(
            f"'{escape_and_truncate(name)}' is not the id of a fact: "
            "use an id from search_memory"
        )
    return fact_id
