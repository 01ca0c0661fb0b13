"""The two keys that users' sign-ins need: from the environment, or from a file.

The file is made by whichever process needs it first, whole and for its owner only; all
others then read it.
"""

import base64
import binascii
import contextlib
import hmac
import logging
import os
import stat
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

from django.conf import settings

from mcp_bridge.seal import Seals
from mcp_bridge.sign_in_errors import SecretsInvalid
from mcp_bridge.vault import Vault

VAULT_KEY = "COULISSE_VAULT_KEY"
HMAC_KEY = "COULISSE_HMAC_KEY"
KEY_BYTES = 32

HEAD = """\
# Made by Coulisse; keep a copy. Without these keys every user has to connect their
# accounts again.
"""

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Secrets:
    """What the keys are for; the keys themselves stay inside."""

    vault: Vault = field(repr=False)
    """Encrypts what is stored."""
    seals: Seals = field(repr=False)
    """Makes links that only this server can read."""
    sessions: str = field(repr=False)
    """Django's `SECRET_KEY`, which signs and encrypts sessions."""


def load() -> Secrets:
    """Return the keys, made now if there are none; raises `SecretsInvalid`."""
    given = {name: os.environ.get(name, "").strip() for name in (VAULT_KEY, HMAC_KEY)}
    return _load(path(), given[VAULT_KEY], given[HMAC_KEY])


def path() -> Path:
    """Return where the keys are that the environment does not give."""
    return Path(settings.COULISSE_SECRETS_FILE)


def check() -> None:
    """Raise `SecretsInvalid` for keys that are there and no good; make none."""
    missing = False
    for name in (VAULT_KEY, HMAC_KEY):
        text = os.environ.get(name, "").strip()
        missing = missing or not text
        if text:
            _decode(name, text)
    if missing and path().exists():
        _read(path())


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
            f"{file} has no {name}: put back the line, or remove the file and have "
            "every user connect their accounts again"
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
        _make(file)
    return _read(file)


def _read(file: Path) -> dict[str, str]:
    try:
        text = file.read_text(encoding="utf-8")
        mode = stat.S_IMODE(file.stat().st_mode)
    except (OSError, UnicodeDecodeError) as exc:
        raise SecretsInvalid(f"cannot read {file}: {exc}") from exc
    if mode & 0o077:
        logger.warning("%s can be read by others: chmod 600 %s", file, file)
    lines = (line.split("=", 1) for line in text.splitlines() if "=" in line)
    stored = {name.strip(): value.strip().strip("\"'") for name, value in lines}
    for name in (VAULT_KEY, HMAC_KEY):
        if name in stored:
            _decode(name, stored[name])
    return stored


def _make(file: Path) -> None:
    """Write the file with new keys, unless another process is first."""
    lines = [
        f"{name}={base64.b64encode(os.urandom(KEY_BYTES)).decode()}\n"
        for name in (VAULT_KEY, HMAC_KEY)
    ]
    try:
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        # Made for its owner only.
        descriptor, name = tempfile.mkstemp(dir=file.parent, prefix=".secrets-")
        try:
            with open(descriptor, "w", encoding="utf-8") as made:
                made.write(HEAD + "".join(lines))
                made.flush()
                os.fsync(made.fileno())
            with contextlib.suppress(FileExistsError):
                # Unlike a rename, it never takes the place of another's.
                os.link(name, file)
                logger.info("made %s; keep a copy of it", file)
        finally:
            os.unlink(name)
    except OSError as exc:
        raise SecretsInvalid(
            f"cannot write {file} ({exc.strerror}): give {VAULT_KEY} and {HMAC_KEY} "
            "in the environment"
        ) from exc
