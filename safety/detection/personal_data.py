"""Personal data in texts: e-mail addresses, telephone numbers, IBANs, cards, IPs.

Patterns of our own instead of a library: presidio needs spaCy and a model of each
language, 500 MB and milliseconds per message, to find names of people, too. These
patterns run in RE2, in linear time, and what has a checksum is checked.
"""

import ipaddress
from collections.abc import Callable, Collection, Iterator
from itertools import islice
from typing import Literal

import re2

from safety.detection.matches import Match

DataKind = Literal["email", "phone", "iban", "card", "ip"]

LETTER = r"A-Za-z\x{80}-\x{10ffff}"
"""RE2 needs a hundred times the memory for the letters of all scripts."""
DOMAIN = rf"(?:[{LETTER}0-9\-]{{1,63}}\.){{1,8}}[{LETTER}]{{2,24}}"
EMAIL = rf"[{LETTER}0-9._%+\-]{{1,64}}@{DOMAIN}"
SPACE = r"[ \x{a0}\x{202f}]"
IBAN = rf"[A-Za-z]{{2}}\d{{2}}(?:{SPACE}?[A-Za-z0-9]){{11,40}}"
CARD = rf"[2-6]\d{{3}}(?:(?:{SPACE}{{0,2}}|-)\d){{9,15}}"
PHONE = r"(?:\+|\(|\d)[\d ()./\-]{5,24}\d"
IPV4 = r"\d{1,3}(?:\.\d{1,3}){3,7}"
IPV6 = r"[0-9A-Fa-f:]{2,30}:\d{1,3}(?:\.\d{1,3}){3}|[0-9A-Fa-f:]{6,39}"

MIN_CARD_DIGITS = 13
MAX_DATA_CHARS = 64
"""Characters after a match that a later beginning of it may need."""
MAX_STARTS = 4
"""Words of an invalid match that are tried as the beginning of a valid one."""
_IBANS = """
AD24 AE23 AL28 AT20 AZ28 BA20 BE16 BG22 BH22 BR29 BY28 CH21 CR22 CY28 CZ24 DE22 DK18
DO28 EE20 EG29 ES24 FI18 FO18 FR27 GB22 GE22 GI23 GL18 GR27 GT28 HR21 HU28 IE22 IL23
IQ23 IS26 IT27 JO30 KW30 KZ20 LB28 LC32 LI21 LT20 LU20 LV21 LY25 MC27 MD24 ME22 MK19
MR27 MT31 MU30 NL18 NO15 PK24 PL28 PS29 PT25 QA29 RO24 RS22 SA24 SC31 SD18 SE24 SI19
SK24 SM27 ST25 SV28 TL23 TN24 TR26 UA29 VA22 VG24 XK20
"""
IBAN_LENGTHS = {entry[:2]: int(entry[2:]) for entry in _IBANS.split()}
"""The length of an IBAN by country (ISO 13616)."""


def _email(text: str) -> int:
    return len(text)


def _iban(text: str) -> int:
    length = IBAN_LENGTHS.get(text[:2].upper(), 0)
    end = _end_of(text, length, str.isalnum)
    number = "".join(c for c in text[:end] if c.isalnum()).upper()
    if not length or len(number) != length:
        return 0
    digits = "".join(str(int(c, 36)) for c in number[4:] + number[:4])
    return end if int(digits) % 97 == 1 else 0


def _card(text: str) -> int:
    """Return the end of the longest card number: its date or code may follow."""
    ends = [n + 1 for n, c in enumerate(text) if c.isdigit()]
    for count in range(len(ends), MIN_CARD_DIGITS - 1, -1):
        end = ends[count - 1]
        if not text[end : end + 1].isdigit() and _is_card(text[:end]):
            return end
    return 0


def _is_card(text: str) -> bool:
    digits = [int(c) for c in text if c.isdigit()]
    doubled = [2 * d - 9 * (d > 4) for d in digits[-2::-2]]
    is_valid = (sum(digits[-1::-2]) + sum(doubled)) % 10 == 0  # Luhn
    return is_valid and len(set(digits)) > 1


def _phone(text: str) -> int:
    """Return the end of a number: the longest of the first words that are one."""
    ends = [n for n, c in enumerate(text) if c == " "]
    for end in [len(text), *reversed(ends)]:
        if _is_phone(text[:end]):
            return end
    return 0


def _is_phone(text: str) -> bool:
    digits = sum(c.isdigit() for c in text)
    if not 7 <= digits <= 15 or DATE.match(text) or text.startswith("0."):
        return False
    return text.startswith(("+", "0", "(0")) or bool(NATIONAL.fullmatch(text))


def _ip(text: str) -> int:
    if ":" in text and "::" not in text and text.count(":") != 7:
        return 0
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return 0
    is_scope = address.version == 6 and not any(c.isdigit() for c in text)
    return 0 if is_scope else len(text)  # `dead::beef` is a name in many languages.


def _end_of(text: str, count: int, counts: Callable[[str], bool]) -> int:
    """Return where the first `count` characters that count end."""
    for position, character in enumerate(text):
        if counts(character):
            count -= 1
        if count <= 0:
            return position + 1
    return len(text)


def _compile(pattern: str) -> re2._Regexp:
    options = re2.Options()
    options.log_errors = False
    return re2.compile(pattern, options)


DATE = _compile(r"\d{1,4}[./-]\d{1,2}[./-]\d{1,4}")
NATIONAL = _compile(r"\(?\d{3}\)?[ .-]\d{3}[ .-]\d{4}")
"""A North American number."""
KINDS: dict[DataKind, tuple[re2._Regexp, Callable[[str], int]]] = {
    # In the order in which overlapping matches are preferred.
    "email": (_compile(EMAIL), _email),
    "iban": (_compile(IBAN), _iban),
    "card": (_compile(CARD), _card),
    "ip": (_compile(f"{IPV6}|{IPV4}"), _ip),
    "phone": (_compile(PHONE), _phone),
}
"""The pattern of each kind, and what returns how much of a match it is; 0: nothing."""


def find_personal_data(text: str, kinds: Collection[DataKind]) -> Iterator[Match]:
    """Yield the data of these kinds, without those within another one."""
    taken = bytearray(len(text))
    for kind, (pattern, measure) in KINDS.items():
        if kind not in kinds:
            continue
        for start, end in _spans(text, pattern, measure):
            if not any(taken[start:end]):
                taken[start:end] = b"\1" * (end - start)
                yield Match(start, end, kind)


def _spans(
    text: str, pattern: re2._Regexp, measure: Callable[[str], int]
) -> Iterator[tuple[int, int]]:
    """Yield where valid data is.

    A pattern takes as much as it can, so what is invalid may end with valid data:
    `2024 4111 1111 1111 1111`. Its next words are tried as the beginning.
    """
    for found in pattern.finditer(text):
        position, end = found.span()
        while position < end:
            span = _first_valid(text, position, end, pattern, measure)
            if span is None:
                break
            yield span
            position = span[1]


def _first_valid(
    text: str,
    start: int,
    end: int,
    pattern: re2._Regexp,
    measure: Callable[[str], int],
) -> tuple[int, int] | None:
    words = _word_starts(text[start:end])
    for word in islice(words, 1 if measure is _ip else MAX_STARTS):
        first = start + word
        found = pattern.match(text[first : end + MAX_DATA_CHARS])
        length = measure(found.group()) if found else 0
        if length and _is_apart(text, first, first + length):
            return first, first + length
    return None


def _word_starts(text: str) -> Iterator[int]:
    before = ""
    for position, character in enumerate(text):
        if not before.isalnum() and (character.isalnum() or character in "+(:"):
            yield position
        before = character


def _is_apart(text: str, start: int, end: int) -> bool:
    """Whether no letter or digit is beside a match: RE2 has no look-around."""
    beside = text[max(start - 1, 0) : start] + text[end : end + 1]
    return not any(c.isalnum() for c in beside)
