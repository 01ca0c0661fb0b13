"""Texts as a model reads them, whatever was done to hide their words from a search.

Letters of other scripts that look like Latin ones, characters without width, letters
with spaces or signs between them: a model reads through all of it.
"""

import re
import unicodedata
from collections import Counter
from collections.abc import Iterator
from functools import cache, lru_cache
from importlib import resources

import orjson

MAX_LENGTH = 8_000
"""Characters that are read. No fact is longer: it may have 2,000, and with spaces
between all of its letters, up to three of which are kept, four times as many."""
GAP = re.compile(r"([\s\x00-\x1f\x7f-\x9f]{3})[\s\x00-\x1f\x7f-\x9f]+")
SPACED = re.compile(r"(?<![^\W_])(?:[^\W\d_][\W_]{1,3}){3,}[^\W\d_](?![^\W_])")
"""Four letters or more, each alone."""
BETWEEN = re.compile(r"[\W_]+")
WORD = re.compile(r"[^\W\d_]+")
ZERO_WIDTH = re.compile("[\u200b-\u200f\u2060-\u2064\ufeff]")
"""A model may read them as spaces: they part words, or hide within them."""
MARKS = dict.fromkeys([*range(0x300, 0x370), *range(0x20D0, 0x20F1)])
"""Set above, below and across letters."""


def possible_readings(text: str) -> tuple[str, ...]:
    """Return what a text may be read as: as it is, in Latin letters, letters joined.

    Line ends are kept. Readings that are the same are left out.
    """
    seen = strip_formatting(text)
    latin = _replace_lookalikes(seen)
    found = [seen, latin, _join_spaced_letters(seen), _join_spaced_letters(latin)]
    if not text.isascii():
        found.append(_replace_lookalikes(strip_formatting(ZERO_WIDTH.sub(" ", text))))
    return tuple(dict.fromkeys(found))


@lru_cache(maxsize=4)  # One text is read in several ways.
def strip_formatting(text: str) -> str:
    """Return a text without format characters, width and other forms of letters."""
    text = GAP.sub(r"\1", text)[:MAX_LENGTH].replace("\u2019", "'")
    if text.isascii():
        return text
    normal = unicodedata.normalize("NFKC", text)[:MAX_LENGTH]
    if normal.isprintable():
        return normal
    return "".join(c for c in normal if unicodedata.category(c) not in ("Cf", "Cs"))


def find_spaced_letters(text: str) -> list[str]:
    """Return the letters of each run that has something between every two of them."""
    runs = SPACED.findall(_replace_lookalikes(strip_formatting(text)).casefold())
    return [BETWEEN.sub("", run) for run in runs]


def strip_accents(text: str) -> Iterator[str]:
    """Yield a text in Latin letters without marks above, below or across them."""
    if text.isascii():
        return
    apart = unicodedata.normalize("NFKD", strip_formatting(text))
    yield _replace_lookalikes(apart.translate(MARKS))


def _replace_lookalikes(text: str) -> str:
    """Return a text whose words of lookalikes are written in Latin letters.

    Words with a letter that looks like no Latin one stay as they are: they are what
    they seem, in their own script.
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
    """Return the letter of ASCII for each character that Unicode says looks like it.

    Unicode's UTS #39 as `confusable_homoglyphs` packages it. Its module would hold all
    the 10,000 entries in memory; what is needed are 1,500.
    """
    file = resources.files("confusable_homoglyphs") / "confusables.json"
    known = orjson.loads(file.read_bytes())
    return _small_capitals() | {
        ord(character): _letter(character, other["c"])
        for character, others in known.items()
        for other in others
        if len(character) == 1 and not character.isascii()
        if other["c"].isascii() and other["c"].isalpha()
    }


def _small_capitals() -> dict[int, str]:
    """Return the letter of ASCII for each small capital.

    Unicode does not list them as lookalikes, but names them after the letter.
    """
    places = (*range(0x250, 0x2B0), *range(0x1D00, 0x1D30), *range(0xA730, 0xA732))
    named = {code: unicodedata.name(chr(code), "") for code in places}
    return {
        code: name[-1].lower()
        for code, name in named.items()
        if name[:-1] == "LATIN LETTER SMALL CAPITAL "
    }


def _letter(character: str, lookalike: str) -> str:
    # A capital I looks like a small l, and is listed as one.
    return "I" if lookalike == "l" and character.isupper() else lookalike


def _join_spaced_letters(text: str) -> str:
    """Return a text whose spaced-out letters are joined to words."""
    return SPACED.sub(_join_run, text)


def _join_run(run: re.Match[str]) -> str:
    """Join the letters of a run; what is seldom between them parts words."""
    between = BETWEEN.findall(run[0])
    usual = Counter(between).most_common(1)[0][0]
    return BETWEEN.sub(lambda found: "" if found[0] == usual else " ", run[0])
