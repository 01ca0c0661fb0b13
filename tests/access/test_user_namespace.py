"""The namespace of user ids: which one applies, and mismatches."""

import asyncio
import threading
import uuid
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime

import pytest
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext, override_settings

from access import checks
from access.errors import NamespaceMismatch, NamespaceUnknown
from access.models import UsageCounter, UserNamespace
from access.users import identity, user_namespace
from access.users.user_namespace import PUBLIC_NAMESPACE, fingerprint
from config.errors import SecretsInvalid
from config.loading import secrets_file
from config.loading.secrets_file import HMAC_KEY, USER_NAMESPACE, VAULT_KEY
from memory.models import Thread

pytestmark = pytest.mark.database

OWN, OTHER = uuid.uuid4(), uuid.uuid4()
KEYS = f"{VAULT_KEY}=x\n{HMAC_KEY}=y\n"
YAML = """
providers: {openai: {api_key: k}}
agents: [{name: a, provider: openai, model: m}]
"""


@pytest.fixture
def process(database, monkeypatch, tmp_path):
    """A process without a namespace, on a database without a fingerprint."""
    before = list(UserNamespace.objects.values())
    UserNamespace.objects.all().delete()
    for name in (USER_NAMESPACE, VAULT_KEY, HMAC_KEY):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(user_namespace, "has_user_rows", lambda: False)
    file = tmp_path / ".coulisse" / "secrets.env"
    with override_settings(COULISSE_SECRETS_FILE=file):
        restart(monkeypatch)
        yield file
    UserNamespace.objects.all().delete()
    UserNamespace.objects.bulk_create(UserNamespace(**row) for row in before)


def restart(monkeypatch) -> None:
    monkeypatch.setattr(user_namespace, "_established", None)
    monkeypatch.setattr(user_namespace, "_problem", None)


def write(file, text: str) -> None:
    file.parent.mkdir(exist_ok=True)
    file.write_text(text)
    file.chmod(0o600)


def recorded() -> str | None:
    return UserNamespace.objects.values_list("fingerprint", flat=True).first()


# Sources of the namespace.


def test_new_installation_creates_its_own(process, monkeypatch):
    found = user_namespace.current()
    assert found not in (PUBLIC_NAMESPACE, OWN)
    stored = secrets_file.read_keys(process)
    assert stored[USER_NAMESPACE] == str(found)
    assert {VAULT_KEY, HMAC_KEY} < stored.keys()
    assert recorded() == fingerprint(found)
    assert identity.derive_user_id("ada") == uuid.uuid5(found, "ada")
    restart(monkeypatch)
    assert user_namespace.current() == found


def test_environment_comes_before_the_file(process, monkeypatch):
    write(process, f"{KEYS}{USER_NAMESPACE}={OTHER}\n")
    monkeypatch.setenv(USER_NAMESPACE, str(OWN))
    assert user_namespace.current() == OWN


def test_environment_alone_creates_no_file(process, monkeypatch):
    monkeypatch.setenv(USER_NAMESPACE, str(OWN))
    assert user_namespace.current() == OWN
    assert not process.exists()


def test_file_without_the_line_keeps_the_public_one(process):
    write(process, KEYS)
    assert user_namespace.current() == PUBLIC_NAMESPACE
    assert process.read_text() == KEYS
    assert recorded() == fingerprint(PUBLIC_NAMESPACE)


@pytest.mark.parametrize("names", [[VAULT_KEY, HMAC_KEY], [HMAC_KEY]])
def test_keys_of_the_environment_keep_the_public_one(process, monkeypatch, names):
    for name in names:
        monkeypatch.setenv(name, "x")
    assert user_namespace.current() == PUBLIC_NAMESPACE
    assert not process.exists()


def test_users_without_a_record_keep_the_public_one(process, monkeypatch):
    monkeypatch.setattr(user_namespace, "has_user_rows", lambda: True)
    assert user_namespace.current() == PUBLIC_NAMESPACE
    assert not process.exists()
    assert recorded() == fingerprint(PUBLIC_NAMESPACE)


def test_processes_of_one_installation_agree(process, monkeypatch):
    """Several processes create the file and the fingerprint at once."""
    ready = threading.Barrier(6)

    def begin(_) -> uuid.UUID:
        try:
            ready.wait(60)
            return user_namespace._compare()
        finally:
            connection.close()

    with ThreadPoolExecutor(6) as threads:
        assert len(set(threads.map(begin, range(6)))) == 1


def test_concurrent_processes_record_one_namespace(process):
    ready = threading.Barrier(6)

    def begin(_) -> str:
        try:
            ready.wait(60)
            return user_namespace._store_fingerprint(uuid.uuid4())
        finally:
            connection.close()

    with ThreadPoolExecutor(6) as threads:
        assert set(threads.map(begin, range(6))) == {recorded()}


# Refused processes.


def test_second_replica_with_its_own_file_is_refused(process, monkeypatch, tmp_path):
    user_namespace.current()
    restart(monkeypatch)
    other = tmp_path / "replica" / "secrets.env"
    with override_settings(COULISSE_SECRETS_FILE=other):
        write(other, f"{KEYS}{USER_NAMESPACE}={OTHER}\n")
        for _ in range(2):
            with pytest.raises(NamespaceMismatch, match="the same COULISSE_USER_NAM"):
                identity.derive_user_id("ada")


@pytest.mark.parametrize("rest", [None, KEYS])
def test_lost_namespace_is_noticed(process, monkeypatch, rest):
    found = user_namespace.current()
    restart(monkeypatch)
    process.unlink()
    if rest is not None:
        write(process, rest)
    with pytest.raises(NamespaceMismatch, match=r"Restore .*secrets\.env") as caught:
        user_namespace.current()
    assert str(found) not in str(caught.value)
    assert process.exists() == (rest is not None)
    # It works as soon as the database is available again.
    write(process, f"{KEYS}{USER_NAMESPACE}={found}\n")
    assert user_namespace.current() == found


def test_namespace_given_to_older_users_is_refused(process, monkeypatch):
    monkeypatch.setattr(user_namespace, "has_user_rows", lambda: True)
    monkeypatch.setenv(USER_NAMESPACE, str(OWN))
    with pytest.raises(NamespaceMismatch, match=f"{USER_NAMESPACE}={PUBLIC_NAMESPACE}"):
        user_namespace.current()
    monkeypatch.setenv(USER_NAMESPACE, str(PUBLIC_NAMESPACE))
    assert user_namespace.current() == PUBLIC_NAMESPACE


@pytest.mark.parametrize(
    "text", ["x", "0" * 32, f"{OWN}0", "é"], ids=["short", "nil", "long", "accent"]
)
def test_invalid_namespace_is_refused_and_not_shown(process, monkeypatch, text):
    monkeypatch.setenv(USER_NAMESPACE, text)
    with pytest.raises(SecretsInvalid, match="is not a UUID") as caught:
        user_namespace.current()
    assert "0" * 32 not in str(caught.value)
    monkeypatch.delenv(USER_NAMESPACE)
    write(process, f"{KEYS}{USER_NAMESPACE}={text}\n")
    with pytest.raises(SecretsInvalid, match=r"secrets\.env is not a UUID"):
        user_namespace.current()


def test_unreadable_file_is_refused(process):
    process.mkdir(parents=True)
    with pytest.raises(SecretsInvalid, match="cannot read"):
        user_namespace.current()


def test_event_loop_does_not_wait_for_the_database(process, monkeypatch):
    async def current() -> uuid.UUID:
        return user_namespace.current()

    with pytest.raises(NamespaceUnknown):
        asyncio.run(current())
    found = user_namespace.establish()
    assert asyncio.run(current()) == found
    restart(monkeypatch)
    monkeypatch.setenv(USER_NAMESPACE, str(OTHER))
    with pytest.raises(NamespaceMismatch):
        user_namespace.establish()
    with pytest.raises(NamespaceMismatch):
        asyncio.run(current())


def test_rolled_back_record_is_made_again(process, monkeypatch):
    with transaction.atomic():
        found = user_namespace.current()
        transaction.set_rollback(True)
    assert recorded() is None
    assert user_namespace.current() == found
    assert recorded() == fingerprint(found)


def test_established_namespace_asks_no_database(process):
    user_namespace.current()
    with CaptureQueriesContext(connection) as requested:
        identity.derive_user_id(f"new-{uuid.uuid4()}")
    assert len(requested) == 0


# Models with user ids.


def test_user_rows_are_found(database, user):
    names = {model.__name__ for model in user_namespace._user_models()}
    assert {"Thread", "Fact", "Turn", "Task", "Feedback", "McpToken"} <= names
    with transaction.atomic():
        now = datetime.now(UTC)
        Thread.objects.create(user_id=uuid.uuid4(), created_at=now, updated_at=now)
        assert user_namespace.has_user_rows()
        transaction.set_rollback(True)


def test_usage_counters_count_as_user_rows(database, monkeypatch):
    monkeypatch.setattr(user_namespace, "_user_models", lambda: iter(()))
    with transaction.atomic():
        UsageCounter.objects.all().delete()
        UsageCounter.objects.create(subject="token:x", window=0, start=0, last_at=0)
        assert not user_namespace.has_user_rows()
        UsageCounter.objects.create(subject="user:x", window=0, start=0, last_at=0)
        assert user_namespace.has_user_rows()
        transaction.set_rollback(True)


# The check.


def found_by_check() -> list[str]:
    return [message.id for message in checks.check_user_namespace()]


@pytest.fixture
def yaml(settings, tmp_path):
    def yaml(more: str = "") -> None:
        settings.COULISSE_CONFIG.write_text(YAML + more)

    settings.COULISSE_CONFIG = tmp_path / "coulisse.yaml"
    yaml()
    return yaml


def test_check_creates_nothing(process, yaml):
    assert found_by_check() == []
    assert not process.exists()
    assert recorded() is None


def test_check_warns_about_the_public_namespace(process, yaml, monkeypatch):
    write(process, KEYS)
    assert found_by_check() == ["coulisse.W306"]
    yaml("users: {accept_uuids: false}\n")
    assert found_by_check() == []
    yaml()
    process.unlink()
    monkeypatch.setattr(user_namespace, "has_user_rows", lambda: True)
    assert found_by_check() == ["coulisse.W306"]
    (message,) = checks.check_user_namespace()
    assert "accept_uuids" in message.msg


def test_check_accepts_an_own_namespace(process, yaml):
    user_namespace.establish()
    assert found_by_check() == []


def test_check_reports_another_namespace(process, yaml, monkeypatch):
    user_namespace.establish()
    monkeypatch.setenv(USER_NAMESPACE, str(OTHER))
    assert found_by_check() == ["coulisse.E309"]
    monkeypatch.setenv(USER_NAMESPACE, "x")
    assert found_by_check() == ["coulisse.E310"]


def test_check_uses_the_keys_without_a_database(process, yaml, monkeypatch):
    write(process, KEYS)

    def fail():
        raise user_namespace.DatabaseError

    monkeypatch.setattr(user_namespace, "_read_fingerprint", fail)
    monkeypatch.setattr(user_namespace, "has_user_rows", fail)
    assert found_by_check() == ["coulisse.W306"]
