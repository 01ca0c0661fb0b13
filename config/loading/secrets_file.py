"""`secrets.env`: the keys of an installation that the environment lacks.

With SQLite, the process that needs the file first creates it, complete and readable by
its owner only; all others read it. Processes that share a PostgreSQL database may run
on several machines, each of which would make keys of its own: there an operator gives
them.
"""

import base64
import contextlib
import hashlib
import logging
import os
import stat
import uuid
from pathlib import Path

from django.conf import settings

from config.errors import SecretsInvalid
from core.runtime import atomic_write

VAULT_KEY = "COULISSE_VAULT_KEY"
HMAC_KEY = "COULISSE_HMAC_KEY"
KEYS = (VAULT_KEY, HMAC_KEY)
USER_NAMESPACE = "COULISSE_USER_NAMESPACE"
NAMES = (*KEYS, USER_NAMESPACE)
KEY_BYTES = 32
URL_SAFE = str.maketrans("-_", "+/")
"""From base64 for URLs to base64."""

HEADER = """\
# Created by Coulisse; keep a copy. Without the keys, all users must connect their
# accounts again; without the namespace, their memory cannot be found.
"""

logger = logging.getLogger(__name__)


def secrets_path() -> Path:
    """Return the path of the file, whether or not it exists."""
    return Path(settings.COULISSE_SECRETS_FILE)


def from_environment(name: str) -> str:
    """Return the environment's value, which precedes the file's; "" if unset."""
    return os.environ.get(name, "").strip()


def read_keys(file: Path) -> dict[str, str]:
    """Return the file's values by name; raises `SecretsInvalid` if unreadable."""
    try:
        text = file.read_text(encoding="utf-8")
        mode = stat.S_IMODE(file.stat().st_mode)
    except (OSError, UnicodeDecodeError) as exc:
        raise SecretsInvalid(f"cannot read {file}: {exc}") from exc
    if mode & 0o077:
        logger.warning("%s is readable by other users; run chmod 600 %s", file, file)
    lines = (line.split("=", 1) for line in text.splitlines() if "=" in line)
    return {name.strip(): value.strip().strip("\"'") for name, value in lines}


def creates_keys() -> bool:
    """Return whether a process may create missing keys."""
    return bool(settings.COULISSE_CREATES_KEYS)


def require(*names: str) -> None:
    """Raise `SecretsInvalid` if values are missing that only an operator may create."""
    if creates_keys():
        return
    known = read_all()
    if missing := [name for name in names if not known.get(name)]:
        raise SecretsInvalid(
            f"{', '.join(missing)}: neither in the environment nor in "
            f"{secrets_path()}. All processes that share a PostgreSQL database need "
            "the same keys: set them for each process, or copy that file to each "
            "machine. `coulisse keys` prints new ones, and on a single machine "
            "`coulisse keys --write` stores them in that file"
        )


def read_all() -> dict[str, str]:
    """Return the values in use, by name; raises `SecretsInvalid`."""
    given = {name: from_environment(name) for name in NAMES}
    file = secrets_path()
    stored = read_keys(file) if not all(given.values()) and file.exists() else {}
    return {name: given[name] or stored.get(name, "") for name in NAMES}


def key_ids() -> str:
    """Return short digests of the keys in use: they tell keys apart, not what they are.

    Such as `COULISSE_HMAC_KEY=6a1b… COULISSE_VAULT_KEY=…`, without keys that are
    missing. Raises `SecretsInvalid`.
    """
    known = read_all()
    ids = [f"{name}={_key_id(name, known[name])}" for name in KEYS if known[name]]
    return " ".join(ids)


def _key_id(name: str, text: str) -> str:
    content = f"{name}:{text.translate(URL_SAFE)}".encode()
    return hashlib.sha256(content).hexdigest()[:12]


def generate() -> dict[str, str]:
    """Return new keys and a new namespace, by name."""
    # A version 4 UUID has 122 random bits.
    keys = {name: base64.b64encode(os.urandom(KEY_BYTES)).decode() for name in KEYS}
    return {**keys, USER_NAMESPACE: str(uuid.uuid4())}


def set_user_namespace(file: Path, namespace: uuid.UUID) -> None:
    """Write a namespace into the file, created if missing, in place of another one.

    Raises `SecretsInvalid` where it cannot be written.
    """
    create_file(file, user_namespace=namespace)
    if read_keys(file).get(USER_NAMESPACE) == str(namespace):
        return
    lines = file.read_text(encoding="utf-8").splitlines()
    kept = [line for line in lines if line.split("=")[0].strip() != USER_NAMESPACE]
    text = "\n".join([*kept, f"{USER_NAMESPACE}={namespace}", ""])
    try:
        atomic_write.write_file(file, text.encode())
    except OSError as exc:
        raise SecretsInvalid(
            f"cannot write {file} ({exc.strerror}): make it writable, or set "
            f"{USER_NAMESPACE}={namespace} in the environment"
        ) from exc


def create_file(file: Path, *, user_namespace: uuid.UUID | None = None) -> None:
    """Write the file with new keys, unless another process is first.

    Raises `SecretsInvalid` where it cannot be written.
    """
    values = generate()
    if user_namespace is None:
        del values[USER_NAMESPACE]
    else:
        values[USER_NAMESPACE] = str(user_namespace)
    text = HEADER + "".join(f"{name}={value}\n" for name, value in values.items())
    try:
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with contextlib.suppress(FileExistsError):
            atomic_write.write_file(file, text.encode(), is_new=True)
            logger.info("created %s; keep a copy of it", file)
    except OSError as exc:
        names = ", ".join(KEYS)
        raise SecretsInvalid(
            f"cannot write {file} ({exc.strerror}); make it writable, or set {names} "
            f"and {USER_NAMESPACE} in the environment"
        ) from exc
