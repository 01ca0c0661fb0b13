"""The keys that all processes of a PostgreSQL database share."""

import re
import uuid
from io import StringIO

import pytest
from django.core.management import CommandError, call_command
from django.db import connection
from django.db.models.functions import Now
from django.test import override_settings

from access.checks import check_user_namespace
from access.errors import KeysMismatch
from access.models import UserNamespace
from access.users import user_namespace
from config.errors import SecretsInvalid
from config.loading import secrets_file
from config.loading.secrets_file import HMAC_KEY, KEYS, NAMES, USER_NAMESPACE, VAULT_KEY
from config.overrides import override_store
from database.models import RunningProcess
from mcp_bridge.oauth.crypto import secret_keys

YAML = """
providers: {openai: {api_key: k}}
agents: [{name: a, provider: openai, model: gpt-test}]
"""
pytestmark = pytest.mark.database


@pytest.fixture
def machine(database, monkeypatch, tmp_path):
    """A machine without keys, and a database that no process has used."""
    before = list(UserNamespace.objects.values())
    UserNamespace.objects.all().delete()
    for name in NAMES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(user_namespace, "has_user_rows", lambda: False)
    file = tmp_path / "state" / "secrets.env"
    # Other tests leave rows of processes that had other keys.
    RunningProcess.objects.all().delete()
    with override_settings(COULISSE_SECRETS_FILE=file, COULISSE_CREATES_KEYS=False):
        restart(monkeypatch)
        yield file
    UserNamespace.objects.all().delete()
    UserNamespace.objects.bulk_create(UserNamespace(**row) for row in before)


def restart(monkeypatch, **environment: str) -> None:
    monkeypatch.setattr(user_namespace, "_established", None)
    monkeypatch.setattr(user_namespace, "_problem", None)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)


def keys(*options: str) -> str:
    output = StringIO()
    call_command("keys", *options, stdout=output)
    return output.getvalue()


def test_start_without_keys_is_refused_with_the_remedy(machine):
    with pytest.raises(SecretsInvalid) as caught:
        user_namespace.establish()
    text = str(caught.value)
    for needed in (*KEYS, str(machine), "coulisse keys", "--write"):
        assert needed in text
    with pytest.raises(SecretsInvalid):
        secret_keys.load_keys()
    assert not machine.exists()


def test_new_database_needs_the_namespace_too(machine, monkeypatch):
    values = secrets_file.generate()
    restart(monkeypatch, **{name: values[name] for name in KEYS})
    with pytest.raises(SecretsInvalid, match=f"^.*{USER_NAMESPACE}: neither"):
        user_namespace.establish()


def test_printed_keys_let_every_machine_start(machine, monkeypatch):
    printed = dict(line.split("=", 1) for line in keys().split())
    assert printed.keys() == set(NAMES)
    restart(monkeypatch, **printed)
    assert str(user_namespace.establish()) == printed[USER_NAMESPACE]
    restart(monkeypatch)
    assert user_namespace.establish()
    assert not machine.exists()


def test_written_keys_let_a_single_machine_start(machine):
    assert str(machine) in keys("--write")
    assert machine.stat().st_mode & 0o777 == 0o600
    assert user_namespace.establish()
    with pytest.raises(CommandError, match="exists"):
        keys("--write")


@pytest.mark.parametrize("name", KEYS)
def test_process_with_another_key_is_refused(machine, monkeypatch, name):
    restart(monkeypatch, **secrets_file.generate())
    user_namespace.establish()
    restart(monkeypatch, **{name: secrets_file.generate()[name]})
    monkeypatch.setattr(override_store, "database_exists", lambda: True)
    (other,) = {*KEYS} - {name}
    with pytest.raises(KeysMismatch, match=f"{name} differs") as caught:
        user_namespace.establish()
    assert other not in str(caught.value)
    assert name in user_namespace.inspect().problem
    # After a change on purpose.
    assert name in keys("--accept")
    restart(monkeypatch)
    assert user_namespace.establish()


def test_keys_are_not_accepted_while_others_are_in_use(machine, monkeypatch):
    restart(monkeypatch, **secrets_file.generate())
    user_namespace.establish()
    running = RunningProcess.objects.create(
        id=uuid.uuid4(),
        kind="beat",
        host="other",
        pid=7,
        key_ids=secrets_file.key_ids(),
        started_at=Now(),
        seen_at=Now(),
    )
    restart(monkeypatch, **{KEYS[0]: secrets_file.generate()[KEYS[0]]})
    try:
        with pytest.raises(CommandError, match="the beat with PID 7 on other"):
            keys("--accept")
    finally:
        running.delete()
    assert KEYS[0] in keys("--accept")


def test_moved_database_has_the_keys_of_its_machine(machine, monkeypatch):
    UserNamespace.objects.create(fingerprint="f")
    restart(monkeypatch, **secrets_file.generate())
    user_namespace.record_keys("default")
    stored = UserNamespace.objects.get().key_ids
    expected = secrets_file.key_ids() if connection.vendor == "sqlite" else ""
    assert stored == expected


def test_ids_tell_keys_apart_and_do_not_show_them(machine, monkeypatch):
    values = secrets_file.generate()
    restart(monkeypatch, **values)
    user_namespace.establish()
    ids = secrets_file.key_ids()
    assert UserNamespace.objects.get().key_ids == ids
    assert re.fullmatch(rf"{VAULT_KEY}=\w{{12}} {HMAC_KEY}=\w{{12}}", ids)
    assert not [value for value in values.values() if value[:8] in ids]
    safe = values[VAULT_KEY].translate(str.maketrans("+/", "-_"))
    monkeypatch.setenv(VAULT_KEY, safe)
    assert secrets_file.key_ids() == ids


def test_check_reports_missing_keys(machine, settings, tmp_path):
    settings.COULISSE_CONFIG = tmp_path / "coulisse.yaml"
    settings.COULISSE_CONFIG.write_text(YAML)
    (found,) = check_user_namespace()
    assert found.id == "coulisse.E310"
    assert VAULT_KEY in found.msg
