"""Verification that a quote occurs in a text.

Models copy words correctly, but change punctuation: they straighten quotation marks,
drop a comma, begin with a capital. So only letters, digits and symbols are compared, in
their order.
"""

import re
import unicodedata

# Scripts without spaces between words, so a quote can begin anywhere.
UNSPACED = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff"
    "\U00020000-\U0003ffff]"
)


MAX_TRIES = 1_000
"""Occurrences inside of words that are checked before the quote is rejected."""


def normalize(text: str) -> str:
    """Return a text's letters, digits and symbols in lower case, with single spaces
    between words."""
    plain = unicodedata.normalize("NFKC", text).casefold()
    return " ".join("".join(map(_normalize_character, plain)).split())


def _normalize_character(character: str) -> str:
    kind = unicodedata.category(character)
    # A joiner, such as the one inside an emoji, does not separate words.
    return "" if kind == "Cf" else " " if kind[0] in "PZC" else character


def is_quoted_from(quote: str, text: str) -> bool:
    """Whether a text contains a quote as whole consecutive words; both normalized."""
    start = text.find(quote) if quote else -1
    for _ in range(MAX_TRIES):
        if start < 0:
            break
        if not _splits_word(text, start) and not _splits_word(text, start + len(quote)):
            return True
        start = text.find(quote, start + 1)
    return False


def _splits_word(text: str, index: int) -> bool:
    if index in (0, len(text)):
        return False
    neighbours = text[index - 1 : index + 1]
    return all(map(_is_word_character, neighbours)) and not UNSPACED.search(neighbours)


def _is_word_character(character: str) -> bool:
    return unicodedata.category(character)[0] in "LMN"
