"""`export-user` and `erase-user` give an operator the functions of the API."""

import json
import stat
import sys
import uuid
from io import BytesIO, StringIO, TextIOWrapper

import pytest
from django.core.management import CommandError, call_command
from django.db import OperationalError

from access.models import AuditEntry
from access.tokens import api_tokens
from access.users import identity
from core.ids import UserId
from memory.user_data import erasure, export
from telemetry.schemas import StudioTurn
from tests.access.actors import ADA
from tests.memory.user_data.sample_user import count_rows, store_user_data
from tests.telemetry.sample_turns import nested_calls, store_turn

pytestmark = [pytest.mark.database, pytest.mark.usefixtures("database")]


class Terminal(StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def name() -> str:
    return f"ada-{uuid.uuid4()}"


@pytest.fixture
def owner(name: str) -> UserId:
    owner = identity.derive_user_id(name)
    store_user_data(owner, "plums")
    return owner


def run(*arguments: str, **options: object) -> str:
    output = StringIO()
    call_command(*arguments, stdout=output, **options)
    return output.getvalue()


# export-user


def test_export_prints_the_document(name, owner):
    printed = run("export-user", name)
    assert printed.endswith("}\n")
    data = json.loads(printed)
    assert data["user_id"] == str(owner)
    assert len(data["memories"]) == 2


def test_export_contains_all_calls_of_turns(name, owner):
    turn = store_turn(*nested_calls(), user_id=owner)
    data = json.loads(run("export-user", name))["turns"]
    assert StudioTurn.serialize(turn) in data


def test_export_accepts_a_user_uuid(owner):
    assert json.loads(run("export-user", str(owner)))["memories"]
    assert json.loads(run("export-user", owner.hex))["memories"]


def test_export_of_unknown_user_says_so_beside_the_document(name):
    notes = StringIO()
    exported = json.loads(run("export-user", name, stderr=notes))
    assert exported["memories"] == exported["threads"] == []
    assert notes.getvalue() == f"no data of user {name}\n"


def test_export_of_known_user_has_no_note(name, owner):
    notes = StringIO()
    assert run("export-user", name, stderr=notes)
    assert notes.getvalue() == ""


def test_export_is_utf_8_on_any_terminal(name):
    owner = identity.derive_user_id(name)
    store_user_data(owner, "ünï 中文")
    with TextIOWrapper(BytesIO(), encoding="latin-1") as terminal:
        call_command("export-user", name, stdout=terminal)
        terminal.flush()
        written = terminal.buffer.getvalue()
    assert "中文" in written.decode()


def test_export_file_is_readable_by_its_owner_only(tmp_path, name, owner):
    path = tmp_path / "ada.json"
    path.write_text("an older one")
    path.chmod(0o644)
    assert run("export-user", name, "-o", str(path)) == ""
    assert json.loads(path.read_text())["user_id"] == str(owner)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_failed_export_leaves_no_file(tmp_path, monkeypatch, name, owner):
    def broken(user_id):
        yield b'{"object":'
        raise OperationalError("gone")

    monkeypatch.setattr(export, "iter_chunks", broken)
    with pytest.raises(CommandError, match="cannot use the database: gone"):
        run("export-user", name, "-o", str(tmp_path / "ada.json"))
    assert list(tmp_path.iterdir()) == []


def test_unwritable_export_file_is_named(tmp_path, name):
    with pytest.raises(CommandError, match=r"cannot write .*No such file"):
        run("export-user", name, "-o", str(tmp_path / "nowhere" / "ada.json"))


@pytest.mark.parametrize("command", ["export-user", "erase-user"])
@pytest.mark.parametrize("blank", ["", "  ", "x" * 513])
def test_blank_user_name_is_refused(command, blank):
    with pytest.raises(CommandError, match="safety_identifier"):
        run(command, blank)


# erase-user


@pytest.mark.parametrize("answer", ["yes", "y"])
def test_erase_asks_and_prints_a_receipt(monkeypatch, name, owner, answer):
    monkeypatch.setattr(sys, "stdin", Terminal())
    monkeypatch.setattr("builtins.input", lambda prompt: answer)
    printed = run("erase-user", name)
    asked, receipt = printed.split("erased data of user")
    for line in ("  messages             8", "  facts                2"):
        assert line in asked
        assert line in receipt
    assert not any(count_rows(owner).values())


@pytest.mark.parametrize("answer", ["", "no", "nope"])
def test_erase_without_confirmation_changes_nothing(monkeypatch, name, owner, answer):
    before = count_rows(owner)
    monkeypatch.setattr(sys, "stdin", Terminal())
    monkeypatch.setattr("builtins.input", lambda prompt: answer)
    assert run("erase-user", name).endswith("nothing was erased\n")
    assert count_rows(owner) == before


def test_erase_without_terminal_requires_yes_option(monkeypatch, name, owner):
    monkeypatch.setattr(sys, "stdin", StringIO())
    with pytest.raises(CommandError, match="pass -y"):
        run("erase-user", name)
    assert count_rows(owner)["memory.Fact"] == 2


def test_erase_with_yes_option_does_not_ask(name, owner):
    printed = run("erase-user", name, "--yes")
    assert "This erases" not in printed
    assert not any(count_rows(owner).values())


def test_erase_of_unknown_user_reports_nothing_to_erase(name):
    erasure.request_erasure(identity.derive_user_id(name))
    assert run("erase-user", name) == f"no data of user {name}\n"
    assert not any(count_rows(identity.derive_user_id(name)).values())


def test_erase_removes_only_the_named_user(name, owner):
    neighbour = identity.derive_user_id(f"{name}x")
    store_user_data(neighbour)
    before = count_rows(neighbour)
    run("erase-user", name, yes=True)
    assert count_rows(neighbour) == before


# Output and audit entries.


def test_erase_reports_remaining_tokens_of_the_user(name, owner):
    row, _ = api_tokens.create_token("laptop", name, by=ADA)
    stderr = StringIO()
    run("erase-user", name, yes=True, stderr=stderr)
    assert stderr.getvalue().startswith(
        f"1 active API token still acts for user {name}"
    )
    api_tokens.revoke(str(row.id), by=ADA)
    stderr = StringIO()
    run("erase-user", name, yes=True, stderr=stderr)
    assert stderr.getvalue() == ""


def test_erase_reports_tokens_with_separate_users(name):
    row, _ = api_tokens.create_token("webui", name, by=ADA, client_users="separate")
    acting = {}
    user_id = identity.derive_user_id(f"{name}/ada")
    for user in (name, f"{name}/ada", f"{name}x/ada", str(user_id)):
        stderr = StringIO()
        run("erase-user", user, yes=True, stderr=stderr)
        acting[user] = stderr.getvalue().partition(" for user")[0]
    # The token's own name is of no user.
    assert not acting[name]
    assert not acting[f"{name}x/ada"]
    assert acting[f"{name}/ada"] == "1 active API token still acts"
    assert acting[str(user_id)].endswith("with separate users may act")
    api_tokens.revoke(str(row.id), by=ADA)


def test_export_contains_tokens_without_digests(name, owner):
    row, secret = api_tokens.create_token("laptop", name, by=ADA)
    printed = run("export-user", name)
    [data] = json.loads(printed)["api_tokens"]
    assert data["label"] == "laptop"
    assert (data["expires_at"], data["revoked_at"]) == (None, None)
    assert row.digest not in printed
    assert secret not in printed


def test_export_and_erase_are_audited(name, owner):
    run("export-user", name)
    run("erase-user", name, yes=True)
    entries = AuditEntry.objects.filter(target__contains=owner).newest_first()
    assert [entry.action for entry in entries] == ["user.erase", "user.export"]
    assert all(entry.actor.startswith("command line: ") for entry in entries)
    assert entries[0].details["rows"] > 0
