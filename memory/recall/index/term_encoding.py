"""Encoding of terms in a column: hashes on SQLite, lexemes on PostgreSQL.

A lexeme is a digest of the user and the term. So PostgreSQL's index has separate lists
per user and word, unaffected by other users' data, and a dump of it does not reveal
words.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from hashlib import blake2b
from zlib import crc32

import numpy as np

from core.ids import UserId

HASH32 = np.dtype("<u4")

LEXEME_BYTES = 6
"""Two terms of one user collide once in a hundred million."""
MAX_COUNT = 64
"""Counted occurrences of a term in a text; more do not change the score."""


def hash_terms(terms: Sequence[str]) -> np.ndarray:
    """Return each term's hash: uint32, the same in every process and version."""
    return np.array(list(map(hash_term, terms)), dtype=HASH32)


def hash_term(term: str) -> int:
    return crc32(term.encode("utf-8", "surrogatepass"))


def user_lexemes(user_id: UserId, terms: Iterable[str]) -> list[str]:
    """Return a user's lexemes of some terms: hexadecimal, so they need no quoting."""
    key = user_id.bytes
    return [
        blake2b(
            term.encode("utf-8", "surrogatepass"), key=key, digest_size=LEXEME_BYTES
        ).hexdigest()
        for term in terms
    ]


def write_terms(user_id: UserId, terms: Sequence[str], vendor: str) -> str | bytes:
    """Return terms in the form that plain SQL passes to their column.

    On PostgreSQL this is the text of a `tsvector`, in which a lexeme has a position per
    occurrence; on SQLite, the hashes in order.
    """
    if vendor != "postgresql":
        return hash_terms(terms).tobytes()
    counts = Counter(terms)
    return " ".join(
        f"{lexeme}:{POSITIONS[min(count, MAX_COUNT)]}"
        for lexeme, count in zip(
            user_lexemes(user_id, counts), counts.values(), strict=True
        )
    )


POSITIONS = [",".join(map(str, range(1, n + 1))) for n in range(MAX_COUNT + 1)]
