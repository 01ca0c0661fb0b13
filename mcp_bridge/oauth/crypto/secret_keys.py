"""The keys for users' sign-ins, from the environment or a file."""

import base64
import binascii
import hmac
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

from config.errors import SecretsInvalid
from config.loading import secrets_file
from config.loading.secrets_file import (
    HMAC_KEY,
    KEY_BYTES,
    KEYS,
    URL_SAFE,
    VAULT_KEY,
)
from mcp_bridge.oauth.crypto.encryption import TokenCipher


@dataclass(frozen=True)
class SecretKeys:
    """The objects that use the keys; the keys themselves stay private."""

    cipher: TokenCipher = field(repr=False)
    """Encrypts stored tokens."""
    link_cipher: TokenCipher = field(repr=False)
    """Encrypts links, which only this server can read."""
    sessions: str = field(repr=False)
    """Django's `SECRET_KEY`, which signs and encrypts sessions."""


def load_keys() -> SecretKeys:
    """Return the keys, created if missing; raises `SecretsInvalid`."""
    given = {name: secrets_file.from_environment(name) for name in KEYS}
    return _build_keys(secrets_file.secrets_path(), given[VAULT_KEY], given[HMAC_KEY])


def check_keys() -> None:
    """Raise `SecretsInvalid` for invalid keys; never create any."""
    missing = False
    for name in KEYS:
        text = secrets_file.from_environment(name)
        missing = missing or not text
        if text:
            _decode(name, text)
    file = secrets_file.secrets_path()
    if missing and file.exists():
        _read_file(file)


# Cached for the life of the process, which continues if the file is lost.
@lru_cache(maxsize=8)
def _build_keys(file: Path, vault_text: str, hmac_text: str) -> SecretKeys:
    stored: Mapping[str, str] = {}
    if not (vault_text and hmac_text):
        if not file.exists():
            secrets_file.require(*KEYS)
            secrets_file.create_file(file)
        stored = _read_file(file)
    vault_key = _resolve_key(VAULT_KEY, vault_text, stored, file)
    hmac_key = _resolve_key(HMAC_KEY, hmac_text, stored, file)
    # From a key that every process of a server has already, whatever gave it that.
    links, sessions = (
        hmac.digest(hmac_key, purpose, "sha256")
        for purpose in (b"coulisse mcp sign-in", b"coulisse sessions")
    )
    return SecretKeys(TokenCipher(vault_key), TokenCipher(links), sessions.hex())


def session_key() -> str:
    """Return Django's `SECRET_KEY`; raises `SecretsInvalid`."""
    return load_keys().sessions


def _resolve_key(name: str, given: str, stored: Mapping[str, str], file: Path) -> bytes:
    if given:
        return _decode(name, given)
    if name not in stored:
        raise SecretsInvalid(
            f"{file} has no {name}: restore the line, or add it with a new key, after "
            "which every user must connect their accounts again"
        )
    return _decode(name, stored[name])


def _decode(name: str, text: str) -> bytes:
    """Decode a base64 key; raises `SecretsInvalid` with its name."""
    try:
        key = base64.b64decode(text.translate(URL_SAFE), validate=True)
    except (binascii.Error, ValueError):
        key = None
    if key is None or len(key) != KEY_BYTES:
        found = "is not base64" if key is None else f"is {len(key)} bytes long"
        # Not `from exc`: the error's text might show the key.
        raise SecretsInvalid(
            f"{name} {found}; it must be {KEY_BYTES} bytes in base64, such as the "
            "output of `openssl rand -base64 32`"
        )
    return key


def _read_file(file: Path) -> dict[str, str]:
    stored = secrets_file.read_keys(file)
    for name in KEYS:
        if name in stored:
            _decode(name, stored[name])
    return stored
