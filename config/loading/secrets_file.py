"""`.coulisse/secrets.env`: the keys of an installation that the environment lacks.

The process that needs the file first creates it, complete and readable by its owner
only; all others read it.
"""

import base64
import contextlib
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
KEY_BYTES = 32

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
    values = {name: base64.b64encode(os.urandom(KEY_BYTES)).decode() for name in KEYS}
    if user_namespace is not None:
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
