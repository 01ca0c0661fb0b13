"""Whether words are somebody's own: a quote, and the text it is said to be from.

Models copy words right and signs wrong: they straighten quotation marks, drop a comma,
begin with a capital. So letters, digits and symbols count, in their order, and nothing
else does.
"""

import re
import unicodedata

# Scripts that put no space between words, so a quote may begin anywhere.
UNSPACED = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff"
    "\U00020000-\U0003ffff]"
)


MAX_TRIES = 1_000
"""Places inside of words at which a quote is found before it is none."""


def normalize(text: str) -> str:
    """Return a text's letters, digits and symbols in small, one space between words."""
    plain = unicodedata.normalize("NFKC", text).casefold()
    return " ".join("".join(map(_normalize_character, plain)).split())


def _normalize_character(character: str) -> str:
    kind = unicodedata.category(character)
    # A sign that joins, such as the one inside an emoji, is not between words.
    return "" if kind == "Cf" else " " if kind[0] in "PZC" else character


def is_quoted_from(quote: str, text: str) -> bool:
    """Whether the words of a quote stand in a text, whole and in a row; both folded."""
    start = text.find(quote) if quote else -1
    for _ in range(MAX_TRIES):
        if start < 0:
            break
        if not _splits_word(text, start) and not _splits_word(text, start + len(quote)):
            return True
        start = text.find(quote, start + 1)
    return False


def _splits_word(text: str, place: int) -> bool:
    """Whether a cut at a place goes through a word."""
    if place in (0, len(text)):
        return False
    sides = text[place - 1 : place + 1]
    return all(map(_is_word_character, sides)) and not UNSPACED.search(sides)


def _is_word_character(character: str) -> bool:
    return unicodedata.category(character)[0] in "LMN"
