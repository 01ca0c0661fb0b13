"""Deobfuscation: plain readings of texts that hide words from pattern matching.

Models read through lookalike letters of other scripts, zero-width characters, and
spaces or punctuation between letters. So the filter checks these readings too.
"""

import re
import unicodedata
from collections import Counter
from collections.abc import Iterator
from functools import cache, lru_cache
from importlib import resources

import orjson

MAX_LENGTH = 8_000
"""Characters that are checked. A fact has at most 2,000; with three separators after
each letter it has four times as many."""
GAP = re.compile(r"([\s\x00-\x1f\x7f-\x9f]{3})[\s\x00-\x1f\x7f-\x9f]+")
SPACED = re.compile(r"(?<![^\W_])(?:[^\W\d_][\W_]{1,3}){3,}[^\W\d_](?![^\W_])")
"""Four or more letters, each separated."""
BETWEEN = re.compile(r"[\W_]+")
WORD = re.compile(r"[^\W\d_]+")
ZERO_WIDTH = re.compile("[\u200b-\u200f\u2060-\u2064\ufeff]")
"""Separators that a model may read as spaces: they separate words or occur within
them."""
MARKS = dict.fromkeys([*range(0x300, 0x370), *range(0x20D0, 0x20F1)])
"""Combining marks above, below and across letters."""


def possible_readings(text: str) -> tuple[str, ...]:
    """Return the possible readings of a text: unchanged, in Latin letters, and with
    separated letters joined.

    Line breaks are kept. Duplicate readings are removed.
    """
    visible = strip_formatting(text)
    latin = _replace_lookalikes(visible)
    found = [visible, latin, _join_spaced_letters(visible), _join_spaced_letters(latin)]
    if not text.isascii():
        found.append(_replace_lookalikes(strip_formatting(ZERO_WIDTH.sub(" ", text))))
    return tuple(dict.fromkeys(found))


@lru_cache(maxsize=4)  # Each text is read in several ways.
def strip_formatting(text: str) -> str:
    """Return a text without format characters and without width and other variants of
    letters."""
    text = GAP.sub(r"\1", text)[:MAX_LENGTH].replace("\u2019", "'")
    if text.isascii():
        return text
    normal = unicodedata.normalize("NFKC", text)[:MAX_LENGTH]
    if normal.isprintable():
        return normal
    return "".join(c for c in normal if unicodedata.category(c) not in ("Cf", "Cs"))


def find_spaced_letters(text: str) -> list[str]:
    """Return the letters of each run in which separators stand between all letters."""
    runs = SPACED.findall(_replace_lookalikes(strip_formatting(text)).casefold())
    return [BETWEEN.sub("", run) for run in runs]


def strip_accents(text: str) -> Iterator[str]:
    """Yield a text in Latin letters without combining marks."""
    if text.isascii():
        return
    apart = unicodedata.normalize("NFKD", strip_formatting(text))
    yield _replace_lookalikes(apart.translate(MARKS))


def _replace_lookalikes(text: str) -> str:
    """Return a text whose lookalike words are written in Latin letters.

    A word with a letter that resembles no Latin letter stays unchanged: it is a genuine
    word of its script.
    """
    if text.isascii():
        return text
    return WORD.sub(_replace_word, text.translate(MARKS))


def _replace_word(found: re.Match[str]) -> str:
    word = found[0]
    latin = word.translate(_lookalikes())
    return latin if latin.isascii() else word


@cache
def _lookalikes() -> dict[int, str]:
    """Return the ASCII letter for each character that Unicode lists as confusable.

    The data is Unicode's UTS #39 as packaged by `confusable_homoglyphs`. The package
    would load all 10,000 entries into memory; 1,500 are needed.
    """
    file = resources.files("confusable_homoglyphs") / "confusables.json"
    confusables = orjson.loads(file.read_bytes())
    return _small_capitals() | {
        ord(character): _letter(character, other["c"])
        for character, others in confusables.items()
        for other in others
        if len(character) == 1 and not character.isascii()
        if other["c"].isascii() and other["c"].isalpha()
    }


def _small_capitals() -> dict[int, str]:
    """Return the ASCII letter for each small capital.

    Unicode does not list them as confusables, but their names contain the letter.
    """
    places = (*range(0x250, 0x2B0), *range(0x1D00, 0x1D30), *range(0xA730, 0xA732))
    named = {code: unicodedata.name(chr(code), "") for code in places}
    return {
        code: name[-1].lower()
        for code, name in named.items()
        if name[:-1] == "LATIN LETTER SMALL CAPITAL "
    }


def _letter(character: str, lookalike: str) -> str:
    # A capital I resembles a small l, and is listed as such.
    return "I" if lookalike == "l" and character.isupper() else lookalike


def _join_spaced_letters(text: str) -> str:
    """Return a text whose separated letters are joined to words."""
    return SPACED.sub(_join_run, text)


def _join_run(run: re.Match[str]) -> str:
    """Join the letters of a run; its rarest separators separate words."""
    between = BETWEEN.findall(run[0])
    usual = Counter(between).most_common(1)[0][0]
    return BETWEEN.sub(lambda found: "" if found[0] == usual else " ", run[0])
