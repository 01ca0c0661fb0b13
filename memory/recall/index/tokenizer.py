"""The tokenizer of the search."""

import re
import threading
import unicodedata
from functools import lru_cache

import Stemmer  # type: ignore[import-not-found]

from memory.recall.index.stop_words import STOP_CHARACTERS, STOP_WORDS

MAX_TERMS = 2_000
"""Indexed terms of one text; the rest of a very long one is only searchable by its
vector. PostgreSQL limits a `tsvector` to 1 MB."""
MAX_LENGTH = 40
"""Characters of one term; longer ones are keys and hashes, not words."""

SUBJECT_PATTERN = re.compile(r"^\s*(?:the\s+)?user(?:['\u2019]s)?\s+", re.IGNORECASE)

UNSPACED = (
    "\u0e00-\u0eff\u0f00-\u0fff\u1000-\u109f\u1780-\u17ff"  # Thai, Lao … Khmer
    "\u3005-\u3007\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"  # Han, kana
    "\uac00-\ud7a3\U00020000-\U0003ffff"  # Korean, with attached particles
)
HAN = "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
INDIC = "\u0900-\u0963\u0966-\u0dff"
"""Includes vowel signs, which Python does not count as letters."""
PIECE = re.compile(
    "|".join(
        (
            r"(?P<number>\d+(?:[.,]\d+)*(?![^\W_]))",
            f"(?P<run>[{UNSPACED}]+)",
            f"(?P<word>(?:(?![{UNSPACED}])[^\\W_]|[{INDIC}])+)",
            "(?P<emoji>[\U0001f1e6-\U0001f1ff]{2}|[\u2600-\u27bf\u2b00-\u2bff"
            "\U0001f000-\U0001f3fa\U0001f400-\U0001faff])",
        )
    )
)
ASCII_WORD = re.compile(r"(?P<number>\d+(?:[.,]\d+)*(?![a-z\d]))|[a-z\d]+")
"""The same for ASCII, several times faster."""
THOUSANDS = re.compile(r"\d{1,3}(?:[.,]\d{3})+")
ACCENTS = dict.fromkeys(
    [
        *range(0x0300, 0x0370),
        *range(0x0591, 0x05C8),  # Hebrew vowels
        *range(0x0610, 0x061B),  # Arabic vowels
        *range(0x064B, 0x0660),
        0x0670,
        0x0640,  # tatweel, which only lengthens an Arabic word
    ]
)
DIGITS = {
    zero + digit: str(digit)
    for zero in (0x0660, 0x06F0, 0x0966)  # Arabic, Persian, Devanagari
    for digit in range(10)
}
QUESTION_MARKS = ("?", "\uff1f", "\u061f", "\u037e")
"""Also full-width, Arabic and Greek."""
AFTER_QUESTION = re.compile(r"[^\w?\uff1f\u061f\u037e]+$")

_stemmer = Stemmer.Stemmer("english", 0)
_lock = threading.Lock()


def tokenize(text: str) -> list[str]:
    """Return the search terms of a text, in order and with repetitions.

    Terms are normalized (case, width, accents) and stemmed in English; function words
    of six languages are removed; numbers and parts of dates are kept. Chinese,
    Japanese, Korean, Thai and related scripts give pairs of characters, because they
    have no spaces; an emoji is a word. At most `MAX_TERMS`.
    """
    found = (
        _tokenize_ascii(text.lower())
        if text.isascii()
        else _tokenize_unicode(_fold(text))
    )
    return found[:MAX_TERMS]


def strip_subject(text: str) -> str:
    """Return a fact without the leading "The user", which all facts share.

    Facts are embedded and indexed without it.
    """
    return SUBJECT_PATTERN.sub("", text, count=1) or text


def is_question(text: str) -> bool:
    """Return whether a text ends with a question mark."""
    return AFTER_QUESTION.sub("", text[-200:]).endswith(QUESTION_MARKS)


def _tokenize_ascii(text: str) -> list[str]:
    found: list[str] = []
    for piece in ASCII_WORD.finditer(text):
        word = piece[0]
        if word in STOP_WORDS:
            continue
        if piece["number"]:
            found += _number_terms(word)
        else:
            found.append(_stem(word[:MAX_LENGTH]))
    return found


def _tokenize_unicode(text: str) -> list[str]:
    found: list[str] = []
    for piece in PIECE.finditer(text):
        kind, word = piece.lastgroup, piece[0]
        if word in STOP_WORDS:
            continue
        if kind == "number":
            found += _number_terms(word)
        elif kind == "run":
            found += _character_bigrams(word)
        elif kind == "word":
            found.append(_stem(word[:MAX_LENGTH]))
        else:
            found.append(word)
    return found


def _fold(text: str) -> str:
    # Case folding can undo the normal form (ͅ, İ), hence the second normalization.
    text = unicodedata.normalize("NFKC", text).casefold()
    bare = unicodedata.normalize("NFKD", text).translate(ACCENTS)
    return unicodedata.normalize("NFC", bare).translate(DIGITS)


def _number_terms(word: str) -> list[str]:
    if THOUSANDS.fullmatch(word):
        word = word.replace(",", "").replace(".", "")
    parts = re.split("[.,]", word)
    if len(parts) == 2:  # 3.5, or 3,5
        return [f"{_strip_leading_zeros(parts[0])}.{parts[1]}"[:MAX_LENGTH]]
    return [_strip_leading_zeros(part)[:MAX_LENGTH] for part in parts]


def _strip_leading_zeros(digits: str) -> str:
    return digits.lstrip("0") or "0"


def _character_bigrams(run: str) -> list[str]:
    found = [run[i : i + 2] for i in range(len(run) - 1)]
    if len(run) == 1 or re.search(f"[{HAN}]", run):
        # A single character is often a word: 猫.
        found += [c for c in run if c not in STOP_CHARACTERS and _is_word(c, run)]
    return found


def _is_word(character: str, run: str) -> bool:
    return run == character or re.match(f"[{HAN}]", character) is not None


@lru_cache(maxsize=65_536)
def _stem(word: str) -> str:
    with _lock:  # A stemmer is not thread-safe.
        return str(_stemmer.stemWord(word))
