"""The UUID namespace from which user ids are derived, together with the names.

In another namespace the same name has another id, and so another memory. The database
therefore stores a fingerprint of the first namespace used with it, and a process with
another one refuses to work. New installations have their own namespace, in the
environment or in `.coulisse/secrets.env`; older ones keep `PUBLIC_NAMESPACE`, in which
anyone can compute the id of a name.
"""

import asyncio
import hashlib
import re
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeVar

from django.apps import apps
from django.db import connection, connections, models
from django.db.utils import DatabaseError, InterfaceError

from access.errors import KeysMismatch, NamespaceMismatch, NamespaceUnknown
from access.models import UsageCounter, UserNamespace
from config.errors import SecretsInvalid
from config.loading import secrets_file
from config.loading.secrets_file import USER_NAMESPACE
from config.overrides import override_store
from database.models import RunningProcess

T = TypeVar("T")

PUBLIC_NAMESPACE = uuid.UUID("5d2e6b62-5f0a-5c43-9f7e-0c8f2a1c7d11")
"""Never change it: users of older installations have ids in this namespace."""

RUST_NAMESPACE = uuid.NAMESPACE_OID
"""That of Coulisse's earlier version, written in Rust, which is public, too."""

UUID_PATTERN = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.I | re.A)

_established: uuid.UUID | None = None
_problem: NamespaceMismatch | KeysMismatch | SecretsInvalid | None = None
"""The error that prevents the process from establishing its namespace."""


@dataclass(frozen=True, slots=True)
class NamespaceSettings:
    """The settings of the environment and the secrets file."""

    namespace: uuid.UUID | None
    has_keys: bool
    """Whether the file has keys; older versions created it without a namespace."""

    @property
    def effective(self) -> uuid.UUID:
        return PUBLIC_NAMESPACE if self.namespace is None else self.namespace


def current() -> uuid.UUID:
    """Return the namespace of this process; free once it is established.

    Raises as `establish` does. On an event loop, which must not wait for a database, it
    raises `NamespaceUnknown` instead of a query: the server establishes it at its
    start.
    """
    if _established is not None:
        return _established
    if _is_on_event_loop():
        raise _problem or NamespaceUnknown
    return establish()


def _is_on_event_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def establish() -> uuid.UUID:
    """Return the namespace after comparing it with the database's fingerprint.

    The first process to use a database stores the fingerprint, and in a new
    installation creates the secrets file. Raises `NamespaceMismatch`, `KeysMismatch`,
    `SecretsInvalid`, and Django's errors for a database that is unavailable or has no
    tables.
    """
    global _established, _problem
    if _established is not None:
        return _established
    try:
        namespace = _compare()
    except (NamespaceMismatch, KeysMismatch, SecretsInvalid) as exc:
        _problem = exc
        raise
    # The caller's transaction may roll the fingerprint back: check again then.
    if not connection.in_atomic_block:
        _established = namespace
    return namespace


def _compare() -> uuid.UUID:
    secrets_file.require(*secrets_file.KEYS)
    recorded = _read_fingerprint() or _store_fingerprint(_choose_namespace())
    settings = read_settings()
    if fingerprint(settings.effective) != recorded:
        raise NamespaceMismatch(detail=_remedy(settings, recorded))
    _compare_keys()
    return settings.effective


def _compare_keys() -> None:
    """Raise `KeysMismatch` unless this process has the keys of the others.

    The first process stores the ids of its keys. With SQLite there is one machine.
    """
    if secrets_file.creates_keys():
        return
    UserNamespace.objects.filter(key_ids="").update(key_ids=secrets_file.key_ids())
    if differing := _find_other_keys():
        raise KeysMismatch(differing)


def _find_other_keys() -> list[str]:
    """Return the names of the keys that differ from those of the other processes."""
    recorded = UserNamespace.objects.values_list("key_ids", flat=True).first()
    if secrets_file.creates_keys() or not recorded:
        return []
    others = {*secrets_file.key_ids().split()} - {*recorded.split()}
    return [pair.split("=")[0] for pair in others]


def record_keys(alias: str) -> None:
    """Store the ids of the keys in an SQLite database, whose processes need none.

    Before its rows move to PostgreSQL, whose processes must have these keys.
    """
    if connections[alias].vendor == "sqlite":
        ids = secrets_file.key_ids()
        UserNamespace.objects.using(alias).update(key_ids=ids)


def accept_keys() -> None:
    """Make the keys of this process those of the database, after a change of keys.

    Raises `NamespaceMismatch` if no process has used the database yet, and while one
    runs with other keys.
    """
    ids = secrets_file.key_ids()
    if other := RunningProcess.objects.running().exclude(key_ids=ids).first():
        raise NamespaceMismatch(
            f"other keys are in use by the {other.kind} with PID {other.pid} on "
            f"{other.host}: stop all processes first"
        )
    if not UserNamespace.objects.update(key_ids=ids):
        raise NamespaceMismatch(
            "the database has no keys yet, so there are none to replace: the first "
            "`coulisse start` accepts those it has"
        )


def _choose_namespace() -> uuid.UUID:
    """Return the namespace of a database without a fingerprint."""
    if has_user_rows():
        # Only versions without other namespaces can have stored them.
        return PUBLIC_NAMESPACE
    secrets_file.require(USER_NAMESPACE)
    settings = read_settings()
    if settings.namespace is None and not settings.has_keys:
        # A version 4 UUID has 122 random bits.
        secrets_file.create_file(
            secrets_file.secrets_path(), user_namespace=uuid.uuid4()
        )
        settings = read_settings()  # Another process may have created the file first.
    return settings.effective


def read_settings() -> NamespaceSettings:
    """Return the configured settings; raises `SecretsInvalid`."""
    text = secrets_file.from_environment(USER_NAMESPACE)
    if text:
        return NamespaceSettings(_parse(text, "the environment"), has_keys=True)
    file = secrets_file.secrets_path()
    if not file.exists():
        has_keys = any(map(secrets_file.from_environment, secrets_file.KEYS))
        return NamespaceSettings(None, has_keys)
    text = secrets_file.read_keys(file).get(USER_NAMESPACE, "")
    return NamespaceSettings(_parse(text, str(file)) if text else None, has_keys=True)


def _parse(text: str, source: str) -> uuid.UUID:
    if not UUID_PATTERN.fullmatch(text):
        raise SecretsInvalid(
            f"{USER_NAMESPACE} in {source} is not a UUID: restore its previous value; "
            "for a new installation, use the output of `uuidgen`"
        )
    return uuid.UUID(text)


def adopt(namespace: uuid.UUID, *, is_dry_run: bool = False) -> bool:
    """Derive user ids in a namespace of another system; return whether it is new here.

    It is written to the secrets file, unless the environment has it. Raises
    `NamespaceMismatch` if the environment has another one, or if the database has users
    in another one.
    """
    global _established
    recorded, settings = _read_fingerprint(), read_settings()
    if recorded == fingerprint(namespace) == fingerprint(settings.effective):
        return False
    if has_user_rows():
        raise NamespaceMismatch(
            "the database has users whose ids are derived in another namespace: import "
            "into a new database, with -c and a YAML in another directory"
        )
    if secrets_file.from_environment(USER_NAMESPACE) not in ("", str(namespace)):
        raise NamespaceMismatch(
            f"the environment has another {USER_NAMESPACE}: set it to {namespace}"
        )
    if not is_dry_run:
        if not secrets_file.from_environment(USER_NAMESPACE):
            secrets_file.set_user_namespace(secrets_file.secrets_path(), namespace)
        UserNamespace.objects.all().delete()
        _established = None
        establish()
    return True


def fingerprint(namespace: uuid.UUID) -> str:
    """Return the digest that the database stores; it does not reveal the namespace."""
    content = b"coulisse user namespace:" + namespace.bytes
    return hashlib.sha256(content).hexdigest()


def _read_fingerprint() -> str | None:
    rows = UserNamespace.objects.values_list("fingerprint", flat=True)
    return rows.first()


def _store_fingerprint(namespace: uuid.UUID) -> str:
    """Store a fingerprint unless another process is first; return the stored one."""
    row = UserNamespace(pk=1, fingerprint=fingerprint(namespace))
    UserNamespace.objects.bulk_create([row], ignore_conflicts=True)
    return UserNamespace.objects.values_list("fingerprint", flat=True).get()


def has_user_rows() -> bool:
    """Return whether any table has rows of users."""
    if UsageCounter.objects.filter(subject__startswith="user:").exists():
        return True
    return any(model._default_manager.exists() for model in _user_models())


def _user_models() -> Iterator[type[models.Model]]:
    for model in apps.get_models():
        fields = () if model._meta.proxy else model._meta.concrete_fields
        if any(f.name == "user_id" and isinstance(f, models.UUIDField) for f in fields):
            yield model


def _remedy(settings: NamespaceSettings, recorded: str) -> str:
    """Return the problem and its remedy."""
    file = secrets_file.secrets_path()
    if recorded == fingerprint(PUBLIC_NAMESPACE):
        return (
            "the user ids of this database are derived from the public namespace of "
            f"older versions, but {USER_NAMESPACE} is different, so users would lose "
            f"their memory. Set {USER_NAMESPACE}={PUBLIC_NAMESPACE}, or use a new "
            "database"
        )
    if settings.namespace is None:
        return (
            f"{USER_NAMESPACE} is missing: it is neither in the environment nor in "
            f"{file}, and users would lose their memory without it. Restore {file} "
            "from its backup, or set the value that this database was first used with"
        )
    return (
        f"{USER_NAMESPACE} differs from the value that this database was first used "
        "with, so users would lose their memory. Give all processes of the database "
        f"the same {USER_NAMESPACE}, in the environment or in {file}: the value of the "
        "process that started first, or of your backup"
    )


@dataclass(frozen=True, slots=True)
class NamespaceStatus:
    """The namespace for `coulisse check`, which creates nothing."""

    is_public: bool = False
    problem: str = ""


def inspect() -> NamespaceStatus:
    """Return the namespace in use, as far as the database is readable.

    Raises `SecretsInvalid`.
    """
    secrets_file.require(*secrets_file.KEYS)
    settings, recorded = read_settings(), _query_or_none(_read_fingerprint)
    if recorded is None:
        is_used = _query_or_none(has_user_rows)
        if settings.namespace is None and not settings.has_keys and not is_used:
            return NamespaceStatus()  # The first start creates one.
        recorded = fingerprint(PUBLIC_NAMESPACE if is_used else settings.effective)
    if fingerprint(settings.effective) != recorded:
        return NamespaceStatus(problem=_remedy(settings, recorded))
    if names := _query_or_none(_find_other_keys):
        return NamespaceStatus(problem=str(KeysMismatch(names)))
    public = (PUBLIC_NAMESPACE, RUST_NAMESPACE)
    return NamespaceStatus(is_public=settings.effective in public)


def _query_or_none(query: Callable[[], T]) -> T | None:
    """Return a query's result; None if the database or its tables are missing."""
    if not override_store.database_exists():
        return None
    try:
        return query()
    except (DatabaseError, InterfaceError):
        return None
