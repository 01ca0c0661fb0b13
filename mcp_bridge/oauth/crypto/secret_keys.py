"""The two keys that users' sign-ins need: from the environment, or from a file."""

import base64
import binascii
import hmac
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

from config.errors import SecretsInvalid
from config.loading import secrets_file
from config.loading.secrets_file import HMAC_KEY, KEY_BYTES, KEYS, VAULT_KEY
from mcp_bridge.oauth.crypto.encryption import Vault
from mcp_bridge.oauth.crypto.opaque_tokens import Seals


@dataclass(frozen=True)
class Secrets:
    """What the keys are for; the keys themselves stay inside."""

    cipher: Vault = field(repr=False)
    """Encrypts what is stored."""
    opaque_tokens: Seals = field(repr=False)
    """Makes links that only this server can read."""
    sessions: str = field(repr=False)
    """Django's `SECRET_KEY`, which signs and encrypts sessions."""


def load() -> Secrets:
    """Return the keys, made now if there are none; raises `SecretsInvalid`."""
    given = {name: secrets_file.given(name) for name in KEYS}
    return _load(secrets_file.path(), given[VAULT_KEY], given[HMAC_KEY])


def check() -> None:
    """Raise `SecretsInvalid` for keys that are there and no good; make none."""
    missing = False
    for name in KEYS:
        text = secrets_file.given(name)
        missing = missing or not text
        if text:
            _decode(name, text)
    file = secrets_file.path()
    if missing and file.exists():
        _read(file)


# Kept for the life of the process: it serves on though the file is lost.
@lru_cache(maxsize=8)
def _load(file: Path, vault_text: str, hmac_text: str) -> Secrets:
    stored = {} if vault_text and hmac_text else _stored(file)
    vault_key = _key(VAULT_KEY, vault_text, stored, file)
    hmac_key = _key(HMAC_KEY, hmac_text, stored, file)
    # From a key that every process of a server has already, whatever gave it that.
    sessions = hmac.digest(hmac_key, b"coulisse sessions", "sha256").hex()
    return Secrets(Vault(vault_key), Seals(hmac_key), sessions)


def session_key() -> str:
    """Return what `SECRET_KEY` is; raises `SecretsInvalid`."""
    return load().sessions


def _key(name: str, given: str, stored: Mapping[str, str], file: Path) -> bytes:
    if given:
        return _decode(name, given)
    if name not in stored:
        raise SecretsInvalid(
            f"{file} has no {name}: put back the line, or add it with a new key and "
            "have every user connect their accounts again"
        )
    return _decode(name, stored[name])


def _decode(name: str, text: str) -> bytes:
    """Return a key written in base64; raises `SecretsInvalid`, which names it."""
    try:
        key = base64.b64decode(text.translate(_URL_SAFE), validate=True)
    except (binascii.Error, ValueError):
        key = None
    if key is None or len(key) != KEY_BYTES:
        found = "is not base64" if key is None else f"is {len(key)} bytes long"
        # Not `from exc`: the error's own words might show the key.
        raise SecretsInvalid(
            f"{name} {found}; it must be {KEY_BYTES} bytes in base64, such as "
            "`openssl rand -base64 32` prints"
        )
    return key


_URL_SAFE = str.maketrans("-_", "+/")


def _stored(file: Path) -> dict[str, str]:
    if not file.exists():
        secrets_file.create(file)
    return _read(file)


def _read(file: Path) -> dict[str, str]:
    stored = secrets_file.read(file)
    for name in KEYS:
        if name in stored:
            _decode(name, stored[name])
    return stored
