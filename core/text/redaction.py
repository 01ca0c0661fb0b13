"""Secrets are taken out of what is logged and stored: the last line of defence.

Nothing that is written should have a secret in it to begin with. Where one is all the
same, in what a provider answers or in the message of an exception, it is replaced here:
secrets of the configuration by their value, others by what they look like.

A value that is replaced confirms a guess. Therefore only secrets that cannot be guessed
are known by their value (`core.text.entropy`), and answers to clients are never
redacted by value: they quote as little as they can, and that through `quoted`, which
looks at the text alone. All patterns take time in proportion to the text (possessive or
bounded repetitions, and starts that do not overlap).
"""

import base64
import binascii
import json
import re
import threading
from collections.abc import Iterable
from functools import lru_cache
from urllib.parse import quote

from core.text import entropy
from core.text.sanitization import escape_and_truncate

REDACTED = "[redacted]"
MIN_CHARS = 8
"""What is shorter is also found within words that are no secret."""
MAX_KNOWN = 512
"""The oldest are forgotten: what an edit of the YAML replaced long ago."""

MAX_READ = 64 * 1024
"""Characters of a text that `every` redacts and returns."""
MAX_WORD = 2048
"""Characters without a blank that may be one secret."""

OWN_TOKEN = re.compile(r"sk-coulisse-[\w-]{8,}+")
API_KEY = re.compile(r"\bsk-[\w-]{16,}+")
JWT = re.compile(r"(?<![\w-])eyJ[\w-]{8,}+\.[\w-]{8,}+\.[\w-]*+")
BEARER = re.compile(r"\b(bearer\s++)[\w.~+/=-]{16,}+", re.IGNORECASE)
BASIC = re.compile(r"\b(basic\s++)([A-Za-z0-9+/_-]{4,}+={0,2})", re.IGNORECASE)
SECRET_PARAMETER = re.compile(
    r"((?:(?<![\w.-])--?|[?&])(?=[\w.-]{0,64}?(?:key|passw|secret|token))"
    r"[\w.-]{1,128}+=)[^\s&#$\"']{8,}+",
    re.IGNORECASE,
)
"""`--api-key=…` of a command, `?token=…` of an address."""
URL_PASSWORD = re.compile(r"(://[^\s/:@]*+:)[^\s/@]++(?=@)")
WORD = re.compile(r"[\w.~+/=:-]{20,}+")
"""What may be a key in the words of a provider."""

_known_secrets: dict[str, None] = {}
"""The newest last."""
_longest_first: tuple[str, ...] = ()
"""The longest first, for one may be part of another."""
_lock = threading.Lock()


def register_secrets(secrets: Iterable[str]) -> None:
    """Remember the strong of some secrets, in each of the ways they are written."""
    global _longest_first
    forms = [form for secret in secrets for form in _written_forms(secret)]
    with _lock:
        for form in forms:
            _known_secrets.pop(form, None)
            _known_secrets[form] = None
        while len(_known_secrets) > MAX_KNOWN:
            del _known_secrets[next(iter(_known_secrets))]
        _longest_first = tuple(sorted(_known_secrets, key=len, reverse=True))


def strong_secrets(secrets: Iterable[str]) -> list[str]:
    """Return the secrets that cannot be guessed, which are redacted by their value."""
    return [secret for secret in secrets if _is_strong(secret)]


# A configuration is read again and again with the same secrets.
_is_strong = lru_cache(maxsize=4 * MAX_KNOWN)(entropy.is_strong)


def _written_forms(secret: str) -> set[str]:
    """Return a strong secret as it stands, in JSON, in a URL, and each strong line."""
    plain = {secret.strip(), *(line.strip() for line in secret.splitlines())}
    return {
        form
        for text in strong_secrets(plain)
        for form in (text, json.dumps(text)[1:-1], quote(text, safe=""))
    }


def redact_own(text: str) -> str:
    """Return a text without our own secrets, and as it is otherwise."""
    for secret in _longest_first:
        if secret in text:
            text = text.replace(secret, REDACTED)
    if "sk-coulisse-" in text:
        text = OWN_TOKEN.sub(REDACTED, text)
    return text


def redact_all(text: str) -> str:
    """Return a text without our own secrets and all that looks like anyone's.

    A text of more than `MAX_READ` characters is cut, and ends in how many are missing.
    """
    return (
        redact_patterns(redact_own(text))
        if len(text) <= MAX_READ
        else _redact_beginning(text)
    )


def _redact_beginning(text: str) -> str:
    head = redact_patterns(redact_own(text[:MAX_READ]))
    # The last word may be the half of a secret.
    kept = max(len(head) - MAX_WORD, head.rfind(" "), head.rfind("\n"))
    return f"{head[:kept]}… (cut off: the text has {len(text)} characters)"


def redact_quote(text: str) -> str:
    """Return a foreign text as an answer to a client may quote it.

    All that looks like a random key is masked, whether it is a secret of ours or not,
    so the result does not depend on the configuration.
    """
    return WORD.sub(_redact_key, redact_patterns(text))


def redact_quoted_line(text: str, most: int) -> str:
    """Return a foreign text as `quoted`, on one line of at most `most` characters.

    More is read than is returned, so a key that the end cuts is masked whole.
    """
    line = redact_quote(" ".join(text[: 8 * most].split()))
    return escape_and_truncate(line, most)


def _redact_key(match: re.Match[str]) -> str:
    return REDACTED if entropy.is_strong(match[0]) else match[0]


def redact_patterns(text: str) -> str:
    """Return a text without what looks like a secret, whoever's it is."""
    # Looking for a word first takes a tenth of the time an expression does.
    if "sk-" in text:
        text = API_KEY.sub(REDACTED, text)
    if "eyJ" in text:
        text = JWT.sub(REDACTED, text)
    if "://" in text and "@" in text:
        text = URL_PASSWORD.sub(rf"\1{REDACTED}", text)
    if "=" in text:
        text = SECRET_PARAMETER.sub(rf"\1{REDACTED}", text)
    low = text.lower()
    if "bearer" in low:
        text = BEARER.sub(rf"\1{REDACTED}", text)
    if "basic" in low:
        text = BASIC.sub(_redact_credentials, text)
    return text


def _redact_credentials(match: re.Match[str]) -> str:
    try:
        decoded = base64.b64decode(match[2], altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        return match[0]  # A word of a sentence.
    return f"{match[1]}{REDACTED}" if b":" in decoded else match[0]
