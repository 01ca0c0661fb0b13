"""The `sidecars:` section: parsing, errors, and the check for missing programs."""

import re
from pathlib import Path

import pytest
from django.core import checks
from django.core.management import call_command

from config.errors import ConfigInvalid
from config.loading import loader
from processes.checks import check_sidecars
from processes.config import SIDECARS, HealthConfig, SidecarConfig
from tests.docs.pages import names_in_table, table_rows

YAML = """
agents: [{name: a, provider: p, model: m}]
providers: {p: {kind: openai, api_key: k}}
sidecars:
"""


def load(sidecars: str) -> dict[str, SidecarConfig]:
    return loader.parse_config((YAML + sidecars).encode(), Path("c.yaml")).get(SIDECARS)


def test_defaults_are_as_documented() -> None:
    sidecar = load("  - {name: bridge, command: ./bridge}")["bridge"]
    assert (sidecar.args, sidecar.env, sidecar.cwd) == ((), {}, None)
    assert (sidecar.restart, sidecar.health, sidecar.stop_seconds) == (
        "on-failure",
        None,
        5,
    )


def test_placeholders_in_env_are_expanded(monkeypatch) -> None:
    monkeypatch.setenv("BOT_PASSWORD", "secret-of-the-bot")
    text = "  - {name: b, command: c, env: {PASSWORD: '${BOT_PASSWORD}'}}"
    assert load(text)["b"].env["PASSWORD"].get_secret_value() == "secret-of-the-bot"


@pytest.mark.parametrize(
    ("sidecars", "expected"),
    [
        (
            "  - {name: a, command: x}\n  - {name: a, command: y}",
            "sidecar 'a': 'name': another sidecar already has the name 'a'; rename one",
        ),
        ("  - {name: a}", "sidecar 'a': 'command' is missing"),
        ("  - {command: x}", "'name' is missing"),
        ("  - {name: a, command: ''}", "'command' must"),
        (
            "  - {name: a, command: x, restart: on-fail}",
            r"'restart' must be .*'on-failure'.*did you mean 'on-failure'",
        ),
        ("  - {name: a, command: x, arg: []}", "'arg' is not a known field; did you"),
        ("  - {name: a, command: x, stop_seconds: 9}", "'stop_seconds' must be"),
        ("  - {name: a, command: x, health: {}}", r"'health\.command' is missing"),
        (
            "  - {name: a, command: x, health: {command: y, failures: 0}}",
            r"'health\.failures' must be",
        ),
    ],
)
def test_invalid_fields_are_named(sidecars: str, expected: str) -> None:
    with pytest.raises(ConfigInvalid) as refused:
        load(sidecars)
    assert re.search(expected, str(refused.value)), refused.value


def test_errors_show_no_env_values() -> None:
    with pytest.raises(ConfigInvalid) as refused:
        load("  - {name: a, command: x, env: {TOKEN: [secret-of-the-bot]}}")
    assert "secret-of-the-bot" not in str(refused.value)


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ("command: no-such-thing", "its command 'no-such-thing' is missing or not"),
        ("command: ./no-such-thing", "its command './no-such-thing' is missing"),
        ("command: sh, cwd: nowhere", "nowhere' is not a folder"),
        ("command: sh, env: {PATH: /nowhere}", "its command 'sh' is missing"),
        (
            "command: sh, health: {command: no-such-thing}",
            "the health check of sidecar 'a' cannot start: its command 'no-such",
        ),
        ("command: sh", None),
        ("command: ./script, cwd: bin", None),
        ("command: script, env: {PATH: ./bin}", None),
        ("command: sh, health: {command: /bin/sh}", None),
    ],
)
def test_check_warns_of_missing_commands(
    tmp_path: Path, settings, monkeypatch, fields: str, expected: str | None
) -> None:
    monkeypatch.chdir(tmp_path)
    script = tmp_path / "bin/script"
    script.parent.mkdir()
    script.write_text("#!/bin/sh\n")
    script.chmod(0o700)
    settings.COULISSE_CONFIG = tmp_path / "coulisse.yaml"
    settings.COULISSE_CONFIG.write_text(f"{YAML}  - {{name: a, {fields}}}\n")
    found = check_sidecars()
    assert [(warning.id, warning.level) for warning in found] == (
        [] if expected is None else [("coulisse.W901", checks.WARNING)]
    )
    assert expected is None or expected in found[0].msg


def test_check_command_prints_sidecar_warnings(
    tmp_path: Path, settings, capsys, database: None
) -> None:
    settings.COULISSE_CONFIG = tmp_path / "coulisse.yaml"
    assert check_sidecars() == []
    settings.COULISSE_CONFIG.write_text("sidecars: 5")
    assert check_sidecars() == []  # The configuration's own check reports it.
    settings.COULISSE_CONFIG.write_text(f"{YAML}  - {{name: a, command: nowhere}}\n")
    call_command("check")
    assert "(coulisse.W901) sidecar 'a' cannot start" in capsys.readouterr().err


def test_every_field_is_documented() -> None:
    assert names_in_table("sidecars.md", "field") == SidecarConfig.model_fields.keys()
    fields = HealthConfig.model_fields
    assert names_in_table("sidecars.md", "field of `health`") == fields.keys()
    listed = {row[0].strip("`"): row[1] for row in table_rows("sidecars.md", "field")}
    listed |= {
        f"health.{row[0].strip('`')}": row[1]
        for row in table_rows("sidecars.md", "field of `health`")
    }
    for name in ("stop_seconds", "restart"):
        assert listed[name] == f"`{SidecarConfig.model_fields[name].default}`"
    for name in ("interval_seconds", "timeout_seconds", "failures"):
        assert listed[f"health.{name}"] == f"`{fields[name].default}`"
