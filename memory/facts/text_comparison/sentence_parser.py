"""Parser of a sentence about a user into its significant words."""

import re
import threading
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import groupby
from typing import Literal

import Stemmer  # type: ignore[import-not-found]

from memory.facts.text_comparison import word_lists as lists

WordKind = Literal["word", "number", "date", "not"]

NOT = "NOT"
CONTRACTIONS = (
    (re.compile(r"\b(can)(?:not|'t)\b", re.IGNORECASE), r"\1 not"),
    (re.compile(r"\bwon't\b", re.IGNORECASE), "will not"),
    (re.compile(r"n't\b", re.IGNORECASE), " not"),
    (re.compile(r"\bn'", re.IGNORECASE), "ne "),
    (re.compile(r"\b(?:[ldjmstc]|qu)'(?=\w)", re.IGNORECASE), ""),  # l'utente
    (re.compile(r"'s\b"), ""),
    (re.compile(r"(?<=\d)(?:st|nd|rd|th)\b"), ""),
    (re.compile(r"\b(left|right)[- ]handed\b", re.IGNORECASE), r"\1handed"),
)
UNSPACED = "\u3005\u3041-\u3096\u30a1-\u30fc\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
HAS_UNSPACED = re.compile(f"[{UNSPACED}]")
UNSPACED_FORMS = (
    (re.compile("^(?:用户|用戶|使用者|ユーザー|利用者)(?:的|は|が|の)?"), ""),
    (re.compile("讨厌|討厭"), "NOT喜欢"),
    (re.compile("嫌い"), "好きNOT"),
    (re.compile("(?:(?:では|じゃ)?(?:ありません|ない)|なくなった|ません)$"), NOT),
    (re.compile("不再|不|没有|沒有|没|沒|無|无|戒"), NOT),
    (re.compile("(?:です|だ)$"), ""),
    (re.compile("(?<=[てで])い(?:る|ます)$"), ""),
    (re.compile("(?:ます|る)$"), ""),
    (re.compile("[是的]"), ""),
)
"""Variants of phrases in Chinese and Japanese, which have no spaces."""
HAN_DIGITS = {
    "两": "2",
    "兩": "2",
    **{digit: str(number) for number, digit in enumerate("一二三四五六七八九", 1)},
}

PIECE = re.compile(
    r"(?P<iso>\d{4}-\d{2}-\d{2})"
    r"|(?P<time>\d{1,2}:\d{2})"
    r"|(?P<number>(?:(?<=\s)-)?\d+(?:[.,]\d+)*)"
    rf"|(?P<not>{NOT})"
    f"|(?P<char>[{UNSPACED}])"
    f"|(?P<word>(?:(?![{UNSPACED}])[^\\W\\d_])+(?:\\+\\+|#)?)"
    r"|(?P<sign>[^\w\s.,;:!?'\"()\[\]{}«»„“”\u2018、。「」『』…\u2013—/-])"
)
THOUSANDS = re.compile(r"\d{1,3}(?:[.,]\d{3})+")
PAST = re.compile(lists.PAST, re.IGNORECASE)
MARKS = r"[.,;:!?'\"()\[\]{}«»„“”\u2018\u2019、。「」『』…\u2013—/¿¡]"
# Between letters or digits a mark can be significant: 3.5, 6:30, don't; so can the
# minus before a number.
PUNCTUATION = re.compile(rf"(?<!\w){MARKS}+|{MARKS}+(?!\w)|-+(?!\w)|(?<!\w)-+(?!\d)")

_stemmer = Stemmer.Stemmer("english", 0)
_lock = threading.Lock()


@dataclass(frozen=True, slots=True)
class Word:
    key: str
    raw: str
    kind: WordKind = "word"

    @property
    def is_capital(self) -> bool:
        return self.raw[:1].isupper()

    @property
    def is_past(self) -> bool:
        """Whether it is an English verb in the past tense."""
        word = self.raw.lower()
        if word in lists.STATES:
            return False
        return word.endswith("ed") or word in lists.IRREGULAR_PAST


@dataclass(frozen=True, slots=True)
class ParsedSentence:
    """A sentence without insignificant words."""

    words: tuple[Word, ...]
    negated: tuple[int, ...]
    """The indexes of its negated words."""
    is_clear: bool
    """Whether it has no double negation."""
    is_event: bool
    """Whether it describes an event instead of a state."""

    @property
    def keys(self) -> list[str]:
        return [word.key for word in self.words]


def normalize(text: str) -> str:
    """Return a text without case, width and sentence punctuation."""
    folded = unicodedata.normalize("NFKC", text.replace("\u2019", "'")).casefold()
    return " ".join(PUNCTUATION.sub(" ", folded).split())


@lru_cache(maxsize=64)  # Each draft is compared with several facts.
def parse_sentence(text: str) -> ParsedSentence:
    text = unicodedata.normalize("NFKC", text.replace("\u2019", "'")).strip(" .!?。")
    pieces = list(PIECE.finditer(_expand_contractions(text)))
    words: list[Word] = []
    negated: list[int] = []
    for word in _join_dates(_parse_words(pieces)):
        if word.kind == "not":
            negated.append(len(words))
        else:
            words.append(word)
    hates = sum(piece[0].lower() in lists.DISLIKE for piece in pieces)
    is_clear = not hates or len(negated) == hates
    return ParsedSentence(
        tuple(words), tuple(negated), is_clear, PAST.search(text) is not None
    )


def _expand_contractions(text: str) -> str:
    if text.isupper() and text.isascii():
        text = text.lower()
    for pattern, plain in CONTRACTIONS:
        text = pattern.sub(plain, text)
    if HAS_UNSPACED.search(text):
        for pattern, plain in UNSPACED_FORMS:
            text = pattern.sub(plain, text)
    return text


def _parse_words(pieces: Sequence[re.Match[str]]) -> Iterator[Word]:
    low = [piece[0].lower() for piece in pieces]
    is_negated = not lists.NEGATIONS.isdisjoint(low)
    for index, piece in enumerate(pieces):
        before = low[index - 1] if index else ""
        after = low[index + 1] if index + 1 < len(low) else ""
        if _is_work(low[index]):
            yield Word(_work(after), piece[0])
        elif _is_attached(before, low[index]):
            continue
        elif piece.lastgroup == "word":
            # The capital of a sentence's first word does not mark a name.
            raw = piece[0] if index else low[0]
            yield from _read_word(raw, is_negated=is_negated)
        else:
            yield _read_sign(piece)


def _is_attached(before: str, low: str) -> bool:
    """Return whether a word only extends the previous one."""
    if _is_work(before):
        return _work(low) != "work"
    return low == "no" and before in lists.NOT_NEGATED


def _is_work(low: str) -> bool:
    # Not "worked", which has the same stem, but names no current work.
    return lists.MEANINGS.get(low) == "work"


def _work(after: str) -> str:
    if after in lists.AS:
        return "work_as"
    return "work_at" if after in lists.AT else "work"


def _read_sign(piece: re.Match[str]) -> Word:
    raw = piece[0]
    match piece.lastgroup:
        case "number":
            return Word(_normalize_number(raw), raw, "number")
        case "iso" | "time":
            return Word(raw, raw, "date")
        case "not":
            return Word(NOT, raw, "not")
        case "char" if raw in HAN_DIGITS:
            return Word(HAN_DIGITS[raw], raw, "number")
        case _:
            return Word(raw, raw)


def _read_word(raw: str, *, is_negated: bool) -> Iterator[Word]:
    low = raw.lower()
    if low in lists.WITH_NEGATION and is_negated:
        return
    if low in lists.NEGATIONS or low in lists.NEGATIVE_ALONE:
        yield Word(NOT, raw, "not")
    elif low in lists.DISLIKE:
        yield from (Word(NOT, raw, "not"), Word("like", raw))
    elif low in lists.WITHOUT:
        yield from (Word(NOT, raw, "not"), Word("with", raw))
    elif not _is_ignored(raw, low):
        yield _classify(raw, low)


def _is_ignored(raw: str, low: str) -> bool:
    if low in lists.USERS or low in lists.TITLES:
        return True
    # Al and Su are names.
    return low in lists.FUNCTION_WORDS and not raw[:1].isupper()


def _classify(raw: str, low: str) -> Word:
    if low in lists.NUMBERS:
        return Word(lists.NUMBERS[low], raw, "number")
    if low in lists.DAYS:
        return Word(lists.DAYS[low], raw, "date")
    return Word(lists.MEANINGS.get(low) or _stem(low), raw)


def _join_dates(words: Iterable[Word]) -> Iterator[Word]:
    """Join the parts of a date, so that its formats compare equal."""
    for may_be_date, run in groupby(words, _may_be_date):
        parts = list(run)
        has_number = any(word.kind == "number" for word in parts)
        is_date = any(word.kind != "number" for word in parts) and (
            has_number or all(word.kind == "date" for word in parts)
        )
        if may_be_date and is_date:
            key = " ".join(sorted(part for word in parts for part in _date_parts(word)))
            yield Word(key, " ".join(word.raw for word in parts), "date")
        else:
            yield from parts


def _may_be_date(word: Word) -> bool:
    return word.kind in ("number", "date") or word.raw.lower() in lists.MONTHS


def _date_parts(word: Word) -> list[str]:
    if ":" in word.key:
        return [word.key.lstrip("0")]
    if "-" in word.key:
        year, month, day = word.key.split("-")
        return [year, f"m{int(month)}", day.lstrip("0")]
    return [lists.MONTHS.get(word.raw.lower()) or word.key]


def _normalize_number(raw: str) -> str:
    if THOUSANDS.fullmatch(raw):
        return raw.replace(",", "").replace(".", "")
    return raw.replace(",", ".").lstrip("0") or "0"


@lru_cache(maxsize=8192)
def _stem(word: str) -> str:
    if not word.isascii():
        return word
    with _lock:  # A stemmer is not thread-safe.
        return str(_stemmer.stemWord(word))
