"""An estimate of a secret's entropy in bits; 0 for secrets that people make up.

Redacting a value confirms a guess to its sender, so only values that cannot be guessed
may be redacted. The estimate is conservative: words of languages in Latin script,
keyboard walks, dates and repetitions count as 0 bits, at any length. zxcvbn does not
suit: it knows only English (`MeinHundHeisstRexUndIstLieb` gets 90 bits), and gives 24
random characters at most 79.7.
"""

import math
import re
from collections.abc import Iterator
from itertools import pairwise

STRONG_BITS = 80
MIN_LETTERS = 20
"""Letters and digits; fewer are not enough to tell words from random text."""
MAX_READ = 256
"""Further characters are ignored."""

WORD = re.compile(r"[A-Za-z0-9]+")
HEX = re.compile(r"[0-9a-fA-F]+")
LEET = str.maketrans("013457@$!", "oieastasi")
"""`p4ssw0rd` is read as `password`."""

NEUTRAL_SCORE = 5
LETTER_PAIR_SCORES = {
    "a": "55564454645757452767553244",
    "b": "74127034762643740753711250",
    "c": "71427118735423820657501043",
    "d": "84348235763345730544652043",
    "e": "64665454545657452776453435",
    "f": "72648434733534820645621030",
    "g": "75248344742544730565733041",
    "h": "83348325734454731547643042",
    "i": "64566554456667652576442235",
    "j": "90138101532334620254631033",
    "k": "75347326735664750666643052",
    "l": "83457443743645630255632041",
    "m": "85358324733454650264633021",
    "n": "74577474744446641367542052",
    "o": "45564354555668551766554224",
    "p": "83337134522733850745545031",
    "q": "33315402500735337053940001",
    "r": "84468443734454641566543043",
    "s": "73557445736645652367544044",
    "t": "73448436724444650656643153",
    "u": "74556364545667451766643135",
    "v": "82348132832434720443430040",
    "w": "72337513503224631258219040",
    "x": "54826122700322541038320000",
    "y": "75566443535656680567443063",
    "z": "85457254734565640245653043",
}
"""The likelihood of a letter (the column, a to z) after another in human text.

Binary logarithm of the likelihood relative to random letters, plus `NEUTRAL_SCORE`.
Counted in the translations of Django 5.2 to 42 languages of Latin script, accents and
blanks removed; for each pair the mean of the 25 languages that have it most often.
"""
LOWER, UPPER, DIGIT = "lower", "upper", "digit"
KIND_TRANSITIONS = {
    LOWER: {LOWER: 0.84, UPPER: 0.08, DIGIT: 0.08},
    UPPER: {LOWER: 0.75, UPPER: 0.20, DIGIT: 0.05},
    DIGIT: {LOWER: 0.20, UPPER: 0.20, DIGIT: 0.60},
}
"""The likelihood of a character class after another in human-made secrets. In random
text it does not depend on the previous character."""

KEYBOARD_ROWS = (
    "qwertyuiop asdfghjkl zxcvbnm azertyuiop qwertzuiop abcdefghijklmnopqrstuvwxyz "
    "01234567890 1qaz 2wsx 3edc 4rfv 5tgb 6yhn 7ujm 8ik 9ol 0p 1q2w3e4r5t6y7u8i9o0p"
)
KEYBOARD_WALKS = f"{KEYBOARD_ROWS} {KEYBOARD_ROWS[::-1]}"
MAX_NEIGHBOUR_SHARE = 0.5
"""The share of neighbours on the keyboard or in the alphabet above which a text counts
as a keyboard walk. In random text of this length it stays below."""


def is_strong(secret: str) -> bool:
    """Return whether a secret is a random key, too long to be guessed."""
    return entropy_bits(secret) >= STRONG_BITS


def entropy_bits(secret: str) -> float:
    """Return the estimated entropy of a secret; 0 if a person may have made it up."""
    secret = secret[:MAX_READ]
    secret = WORD.sub(lambda match: "" if _is_word(match[0]) else match[0], secret)
    text = "".join(WORD.findall(secret))
    if len(text) < MIN_LETTERS or _is_keyboard_walk(text) or _is_human_made(secret):
        return 0
    triples = {text[at : at + 3] for at in range(len(text) - 2)}
    distinct_share = len(triples) / (len(text) - 2)
    return math.log2(_alphabet_size(text)) * len(text) * distinct_share


def _is_word(text: str) -> bool:
    """Return whether a part between punctuation is a word rather than random."""
    return text.isalpha() and _pair_evidence(text) > 0


def _is_keyboard_walk(text: str) -> bool:
    pairs = [*pairwise(text.lower())]
    steps = sum(a == b or a + b in KEYBOARD_WALKS for a, b in pairs)
    return steps > MAX_NEIGHBOUR_SHARE * len(pairs)


def _is_human_made(secret: str) -> bool:
    """Return whether a text is more likely human-made than random."""
    text = "".join(WORD.findall(secret))
    if HEX.fullmatch(text):
        # Leet decoding would turn it into vowels only.
        return _human_evidence(text) >= 0
    plain = "".join(WORD.findall(secret.translate(LEET)))
    return max(_human_evidence(text), _human_evidence(plain)) >= 0


def _human_evidence(text: str) -> float:
    """Return the log2 likelihood ratio of human-made to random text."""
    return _pair_evidence(text) + sum(_kind_evidence(text))


def _pair_evidence(text: str) -> float:
    # In hexadecimal text each of the six letters is more frequent.
    correction = math.log2(26 / 6) if HEX.fullmatch(text) else 0
    return sum(
        int(LETTER_PAIR_SCORES[a][ord(b) - ord("a")]) - NEUTRAL_SCORE - correction
        for a, b in pairwise(text.lower())
        if a.isalpha() and b.isalpha()
    )


def _kind_evidence(text: str) -> Iterator[float]:
    kinds = [_character_kind(character) for character in text]
    shares = {kind: kinds.count(kind) / len(kinds) for kind in set(kinds)}
    for previous, kind in pairwise(kinds):
        likelihoods = KIND_TRANSITIONS[previous]
        total = sum(likelihoods[each] for each in shares)
        yield math.log2(likelihoods[kind] / total / shares[kind])


def _character_kind(character: str) -> str:
    if character.isdigit():
        return DIGIT
    return UPPER if character.isupper() else LOWER


def _alphabet_size(text: str) -> int:
    kinds = {_character_kind(character) for character in text}
    if HEX.fullmatch(text):
        return 10 if kinds == {DIGIT} else 16
    return 26 * len(kinds - {DIGIT}) + 10 * (DIGIT in kinds)
