"""A state directory of the Rust version, and the command that imports it."""

import json
import uuid
from io import StringIO

import pytest
from django.core.management import call_command
from django.test.utils import override_settings

from access.models import UserNamespace
from access.users import user_namespace
from config import live
from tests.imports.rust_state import RustState

YAML = """
providers: {openai: {api_key: x}}
agents: [{name: writer, provider: openai, model: gpt-test}]
memory:
  user_state: {embed_with: {provider: openai, model: text-embedding-3-small, dims: 4}}
"""


@pytest.fixture
def rust(tmp_path):
    return RustState(tmp_path / "old" / ".coulisse")


@pytest.fixture
def config_path(tmp_path):
    path = tmp_path / "coulisse.yaml"
    path.write_text(YAML)
    return path


@pytest.fixture
def uuid_user():
    """A user whose id is a UUID of a client, the same in every namespace."""
    return uuid.uuid4()


@pytest.fixture
def run_import(database, rust, config_path):
    """Import the state directory, and return the report."""

    def run(*options, state=rust.directory):
        out = StringIO()
        arguments = ("--state", str(state), "-c", str(config_path), "--json", *options)
        call_command("import", "coulisse", *arguments, stdout=out)
        return json.loads(out.getvalue())

    before = live.current_or_none()
    yield run
    live.set_current(before)


@pytest.fixture
def new_installation(database, monkeypatch, tmp_path):
    """An installation without users, and so without a namespace; yields its keys."""
    before = list(UserNamespace.objects.values())
    UserNamespace.objects.all().delete()
    monkeypatch.delenv("COULISSE_USER_NAMESPACE", raising=False)
    monkeypatch.setattr(user_namespace, "has_user_rows", lambda: False)
    monkeypatch.setattr(user_namespace, "_established", None)
    file = tmp_path / ".coulisse" / "secrets.env"
    with override_settings(
        COULISSE_SECRETS_FILE=file, COULISSE_STATE_DIR=tmp_path / ".coulisse"
    ):
        yield file
    UserNamespace.objects.all().delete()
    UserNamespace.objects.bulk_create(UserNamespace(**row) for row in before)
