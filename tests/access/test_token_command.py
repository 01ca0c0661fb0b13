"""`token create|list|revoke`: the secret on stdout, other text on stderr."""

import json
import os
import re
import sqlite3
import subprocess
import sys
import uuid
from contextlib import closing
from datetime import UTC, datetime, timedelta
from io import StringIO
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import pytest
from django.core.management import CommandError, call_command
from django.db import connection

from access.models import ApiToken, AuditEntry
from access.tokens import token_secrets

pytestmark = [pytest.mark.database, pytest.mark.usefixtures("database")]

ROOT = Path(__file__).parents[2]
YAML = """
providers: {openai: {api_key: x}}
agents:
  - {name: writer, provider: openai, model: gpt-test}
  - {name: coder, provider: openai, model: gpt-test}
"""
SECRET = re.compile(r"sk-coulisse-[\w-]{43}\n")


@pytest.fixture
def yaml(tmp_path: Path) -> Path:
    path = tmp_path / "coulisse.yaml"
    path.write_text(YAML)
    return path


@pytest.fixture
def principal() -> str:
    return f"alice-{uuid.uuid4()}"


@pytest.fixture
def run(yaml: Path):
    """Run the command; return its stdout and stderr."""

    def run(*arguments: str) -> tuple[str, str]:
        out, err = StringIO(), StringIO()
        call_command("token", *arguments, "-c", str(yaml), stdout=out, stderr=err)
        return out.getvalue(), err.getvalue()

    return run


def minted(principal: str) -> ApiToken:
    return ApiToken.objects.get(principal=principal)


# create


def test_create_prints_only_the_secret_on_stdout(run, principal):
    out, err = run("create", "laptop", "--principal", principal)
    assert SECRET.fullmatch(out)
    row = minted(principal)
    assert err.splitlines()[0] == (
        f"created token {row.id.hex[:8]} for {principal} (unlimited)"
    )
    found = ApiToken.objects.verify(
        token_secrets.digest(out.strip()), datetime.now(UTC)
    )
    assert found is not None
    assert found.id == row.id


def test_create_sets_how_requests_are_read(run, principal):
    options = ("--history", "client", "--client-users", "ignore")
    _, err = run("create", "laptop", "--principal", principal, *options)
    assert "(unlimited; history: client; client users: ignore)" in err
    assert "history: client  client users: ignore" in run("list")[0]
    [token] = [
        each
        for each in json.loads(run("list", "--json")[0])
        if each["principal"] == principal
    ]
    assert (token["history"], token["client_users"]) == ("client", "ignore")


def test_create_before_tokens_are_required_prints_a_note(run, yaml, principal):
    _, err = run("create", "laptop", "--principal", principal)
    assert "/v1 does not require tokens yet" in err
    yaml.write_text(YAML + "auth: {proxy: {tokens: {}}}\n")
    _, err = run("create", "ci", "--principal", principal)
    assert "does not require" not in err


def test_create_works_with_an_invalid_yaml(run, yaml, principal):
    yaml.write_text("agents: 1")
    out, err = run("create", "laptop", "--principal", principal, "--agent", "any")
    assert SECRET.fullmatch(out)
    assert "the YAML is invalid" in err


def test_create_stores_all_terms(run, principal):
    terms = ["--budget", "monthly", "--limit", "20.5", "--expires", "90d"]
    agents = ["--agent", "writer", "--agent", "coder"]
    _, err = run("create", "ci", "--principal", principal, *terms, *agents)
    row = minted(principal)
    assert (row.budget, row.limit_micro_usd) == ("monthly", 20_500_000)
    assert row.agents == ["coder", "writer"]
    assert row.expires_at - row.created_at == timedelta(days=90)
    assert "($20.50 / month; agents: coder, writer; until 20" in err


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["--limit", "20"], "needs a budget"),
        (["--budget", "total"], "needs a limit"),
        (["--budget", "total", "--limit", "NaN"], "not an amount of dollars"),
        (["--budget", "total", "--limit", "-1"], "is negative"),
        (["--budget", "total", "--limit", "0.0000001"], "six decimals"),
        (["--budget", "total", "--limit", "9223372036855"], "from 0 to"),
        (["--budget", "weekly", "--limit", "1"], "invalid choice: 'weekly'"),
        (["--expires", "yesterday"], "2026-12-31"),
        (["--expires", "2020-01-01"], "is in the past"),
        (["--expires", "0h"], "is in the past"),
        (["--agent", "writre"], "there is no agent 'writre' (agents: writer, coder)"),
        (["--agent", "writre"], "did you mean 'writer'"),
    ],
)
def test_invalid_terms_are_refused(run, principal, words, reason):
    with pytest.raises(CommandError, match=re.escape(reason)):
        run("create", "laptop", f"--principal={principal}", *words)
    assert not ApiToken.objects.filter(principal=principal).exists()


@pytest.mark.parametrize("label", ["", " ", "x" * 256, "a\0b"])
def test_invalid_label_is_refused(run, principal, label):
    with pytest.raises(CommandError, match="the label"):
        run("create", label, "--principal", principal)
    assert not ApiToken.objects.filter(principal=principal).exists()


def test_principal_is_required(run):
    with pytest.raises(CommandError, match="--principal"):
        run("create", "laptop")
    with pytest.raises(CommandError, match="principal is blank"):
        run("create", "laptop", "--principal", " ")


# list


def test_list_shows_tokens_with_their_spend(run, principal):
    run("create", "laptop", "--principal", principal)
    run("create", "ci", "--principal", principal, "--budget=total", "--limit=5")
    out, _ = run("list")
    ci, laptop = [line for line in out.splitlines() if principal in line]
    assert re.fullmatch(
        r"[0-9a-f]{8}  active   laptop +unlimited +spent \$0\.00 +"
        rf"\[{principal}\]  never used  never expires",
        laptop,
    )
    assert "  ci  " in ci
    assert "  $5.00 total  " in ci


def test_revoked_tokens_are_listed_on_request(run, principal):
    run("create", "laptop", "--principal", principal)
    run("revoke", str(minted(principal).id))
    assert principal not in run("list")[0]
    assert f"[{principal}]" in run("list", "--all")[0]


def test_list_prints_json_without_secrets(run, principal):
    secret = run("create", "laptop", "--principal", principal)[0].strip()
    out, _ = run("list", "--json")
    [result] = [each for each in json.loads(out) if each["principal"] == principal]
    assert result["id"] == str(minted(principal).id)
    assert result["state"] == "active"
    assert result["spent_micro_usd"] == 0
    assert secret not in out
    assert token_secrets.digest(secret) not in out


# revoke


def test_token_is_revoked_by_id_prefix(run, principal):
    secret = run("create", "laptop", "--principal", principal)[0].strip()
    short = minted(principal).id.hex[:8]
    assert run("revoke", short)[0] == f"revoked {short} (laptop)\n"
    assert (
        ApiToken.objects.verify(token_secrets.digest(secret), datetime.now(UTC)) is None
    )
    again, _ = run("revoke", short)
    assert re.fullmatch(
        rf"{short} \(laptop\) was already revoked on 20\S+ \S+\n", again
    )


def test_invalid_revocation_is_refused(run):
    with pytest.raises(CommandError, match="there is no token 00000000"):
        run("revoke", "00000000")
    with pytest.raises(CommandError, match="is not the id of a token"):
        run("revoke", "laptop")


# who did it


def test_audit_names_the_command_line_user(run, principal):
    run("create", "laptop", "--principal", principal)
    row = minted(principal)
    run("revoke", row.id.hex)
    entries = AuditEntry.objects.filter(target=str(row.id)).newest_first()
    assert [entry.action for entry in entries] == ["token.revoke", "token.create"]
    assert {entry.actor.partition(": ")[0] for entry in entries} == {"command line"}
    assert all(entry.origin.startswith("command line on ") for entry in entries)


# The command as a process.


@pytest.fixture
def project(yaml: Path) -> dict[str, str]:
    """An environment with the command's own tables."""
    environment = {**os.environ, "COULISSE_CONFIG": str(yaml)}
    if connection.vendor == "sqlite":
        state = yaml.parent / ".coulisse"
        state.mkdir()
        with closing(sqlite3.connect(state / "coulisse-memory.db")) as copy:
            connection.ensure_connection()
            connection.connection.backup(copy)
    else:
        url = urlsplit(os.environ["DATABASE_URL"])
        path = f"/{connection.settings_dict['NAME']}"
        environment["DATABASE_URL"] = urlunsplit(url._replace(path=path))
    return environment


def process(environment: dict[str, str], *arguments: str):
    return subprocess.run(
        [sys.executable, str(ROOT / "manage.py"), "token", *arguments],
        check=False,
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,  # It ends in any case, but the machine may be busy.
    )


def test_pipe_captures_only_the_key(project, principal):
    ended = process(project, "create", "laptop", "--principal", principal)
    assert ended.returncode == 0, ended.stderr
    assert SECRET.fullmatch(ended.stdout)
    assert ended.stderr.startswith("created token ")
    assert ended.stdout.strip() not in ended.stderr


def test_missing_tables_error_names_migrate(yaml):
    environment = {**os.environ, "DATABASE_URL": ""}
    ended = process(environment, "create", "x", "--principal", "p", f"-c{yaml}")
    assert (ended.returncode, ended.stdout) == (1, "")
    assert ended.stderr.startswith("CommandError: cannot use the database")
    assert "coulisse migrate" in ended.stderr
