"""Secrets are taken out of what leaves the process: the last line of defence.

Nothing that is written should have a secret in it to begin with. Where one is all the
same, in what a provider answers or in the message of an exception, it goes here. Our
own are known by their value; others by what they look like.
"""

import base64
import binascii
import json
import re
import threading
from collections.abc import Iterable
from urllib.parse import quote

MARK = "[redacted]"
MIN_CHARS = 8
"""What is shorter is also found within words that are no secret."""
MAX_KNOWN = 512
"""The oldest are forgotten: what an edit of the YAML replaced long ago."""

OWN_TOKEN = re.compile(r"sk-coulisse-[\w-]{8,}")
API_KEY = re.compile(r"\bsk-[\w-]{16,}")
JWT = re.compile(r"\beyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]*")
BEARER = re.compile(r"\b(bearer\s+)[\w.~+/=-]{16,}", re.IGNORECASE)
BASIC = re.compile(r"\b(basic\s+)([A-Za-z0-9+/_-]{4,}={0,2})", re.IGNORECASE)
GIVEN = re.compile(
    r"((?:(?<![\w-])--?|[?&])[\w.-]*(?:key|passw|secret|token)[\w.-]*=)[^\s&#$\"']{8,}",
    re.IGNORECASE,
)
"""`--api-key=…` of a command, `?token=…` of an address."""
URL_PASSWORD = re.compile(r"(://[^\s/:@]*:)[^\s/@]+(?=@)")

_known: dict[str, None] = {}
"""The newest last."""
_in_order: tuple[str, ...] = ()
"""The longest first, for one may be part of another."""
_changing = threading.Lock()


def know(secrets: Iterable[str]) -> None:
    """Remember values that are never written, in each of the ways they are written."""
    global _in_order
    with _changing:
        for form in [form for secret in secrets for form in _forms(secret)]:
            _known.pop(form, None)
            _known[form] = None
        while len(_known) > MAX_KNOWN:
            del _known[next(iter(_known))]
        _in_order = tuple(sorted(_known, key=len, reverse=True))


def _forms(secret: str) -> set[str]:
    """Return a secret as it stands, in JSON, in a URL, and each of its lines."""
    plain = {secret.strip(), *(line.strip() for line in secret.splitlines())}
    forms = {
        form
        for text in plain
        for form in (text, json.dumps(text)[1:-1], quote(text, safe=""))
    }
    return {form for form in forms if len(form) >= MIN_CHARS}


def own(text: str) -> str:
    """Return a text without our own secrets, and as it is otherwise."""
    for secret in _in_order:
        if secret in text:
            text = text.replace(secret, MARK)
    if "sk-coulisse-" in text:
        text = OWN_TOKEN.sub(MARK, text)
    return text


def every(text: str) -> str:
    """Return a text without our own secrets and all that looks like anyone's."""
    return alike(own(text))


def alike(text: str) -> str:
    """Return a text without what looks like a secret, whoever's it is."""
    # Looking for a word first takes a tenth of the time an expression does.
    if "sk-" in text:
        text = API_KEY.sub(MARK, text)
    if "eyJ" in text:
        text = JWT.sub(MARK, text)
    if "://" in text and "@" in text:
        text = URL_PASSWORD.sub(rf"\1{MARK}", text)
    if "=" in text:
        text = GIVEN.sub(rf"\1{MARK}", text)
    low = text.lower()
    if "bearer" in low:
        text = BEARER.sub(rf"\1{MARK}", text)
    if "basic" in low:
        text = BASIC.sub(_without_credentials, text)
    return text


def _without_credentials(match: re.Match[str]) -> str:
    try:
        decoded = base64.b64decode(match[2], altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        return match[0]  # A word of a sentence.
    return f"{match[1]}{MARK}" if b":" in decoded else match[0]
