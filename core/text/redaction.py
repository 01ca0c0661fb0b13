"""Redact secrets from logs and stored texts, as the last line of defence.

No written text should contain a secret. If one does, in a provider's answer or an
exception message, it is replaced here: secrets of the configuration by their value,
others by their pattern.

A replaced value confirms a guess. Therefore only secrets that cannot be guessed are
matched by value (`core.text.entropy`), and answers to clients are never redacted by
value: they quote as little as possible, through `redact_quote`, which only uses the
text itself. All patterns take time proportional to the text (possessive or bounded
repetitions, and starts that do not overlap).
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
"""Shorter secrets also occur within ordinary words."""
MAX_KNOWN = 512
"""Older secrets are dropped: edits of the YAML replaced them long ago."""

MAX_READ = 64 * 1024
"""Characters of a text that `redact_all` redacts and returns."""
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
"""Possible keys in a provider's text."""

_known_secrets: dict[str, None] = {}
"""In order of registration, the newest last."""
_longest_first: tuple[str, ...] = ()
"""The longest first, because one may contain another."""
_lock = threading.Lock()


def register_secrets(secrets: Iterable[str]) -> None:
    """Register the strong ones of these secrets, in all their written forms."""
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
    """Return the secrets that cannot be guessed, which are redacted by value."""
    return [secret for secret in secrets if _is_strong(secret)]


# Repeated reads of the configuration have the same secrets.
_is_strong = lru_cache(maxsize=4 * MAX_KNOWN)(entropy.is_strong)


def _written_forms(secret: str) -> set[str]:
    """Return a strong secret's forms: plain, in JSON, in a URL, and its lines."""
    plain = {secret.strip(), *(line.strip() for line in secret.splitlines())}
    return {
        form
        for text in strong_secrets(plain)
        for form in (text, json.dumps(text)[1:-1], quote(text, safe=""))
    }


def redact_own(text: str) -> str:
    """Return a text with only this server's secrets redacted."""
    for secret in _longest_first:
        if secret in text:
            text = text.replace(secret, REDACTED)
    if "sk-coulisse-" in text:
        text = OWN_TOKEN.sub(REDACTED, text)
    return text


def redact_all(text: str) -> str:
    """Return a text without this server's secrets and anything like a secret.

    A text of more than `MAX_READ` characters is cut and ends with the number of missing
    characters.
    """
    head = redact_patterns(redact_own(text[:MAX_READ]))
    if len(text) <= MAX_READ:
        return head
    # The last word may be part of a secret.
    end = max(len(head) - MAX_WORD, head.rfind(" "), head.rfind("\n"))
    return f"{head[:end]}… (cut off: the text has {len(text)} characters)"


def redact_quote(text: str) -> str:
    """Return an external text for quoting in a response to a client.

    It masks anything that looks like a random key, so the result does not depend on the
    secrets of this server.
    """
    return WORD.sub(_redact_key, redact_patterns(text))


def redact_quoted_line(text: str, max_length: int) -> str:
    """Return an external text like `redact_quote`, on one line, cut to a length.

    It reads more than it returns, so a key that the cut would split is masked whole.
    """
    line = redact_quote(" ".join(text[: 8 * max_length].split()))
    return escape_and_truncate(line, max_length)


def _redact_key(match: re.Match[str]) -> str:
    return REDACTED if entropy.is_strong(match[0]) else match[0]


def redact_patterns(text: str) -> str:
    """Return a text without anything that looks like a secret."""
    # Searching for a substring first takes a tenth of the time of the pattern.
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
        return match[0]  # An ordinary word.
    return f"{match[1]}{REDACTED}" if b":" in decoded else match[0]
