"""`coulisse overrides`, and the overrides in the output of `coulisse check`."""

import json
from io import StringIO

import pytest
from django.core.management import CommandError, call_command
from django.db import transaction

from access.models import AuditEntry
from config import live
from config.loading.overlays import Overlay
from config.models import Override, OverrideVersion
from config.overrides import overridable_entries, override_editor

pytestmark = pytest.mark.database

YAML = """\
providers: {openai: {api_key: x}}
agents:
  - {name: ann, provider: openai, model: a}
  - {name: bob, provider: openai, model: b}
experiments:
  - name: trial
    strategy: split
    variants: [{agent: ann}]
"""
BOTH = YAML.replace("{agent: ann}", "{agent: ann}, {agent: bob}")
BOB = "name: bob\nprovider: openai\nmodel: better\n"
DAN = "name: dan\nprovider: openai\nmodel: d\n"


@pytest.fixture
def file(database, real_sections, tmp_path, settings):
    forget()
    path = tmp_path / "coulisse.yaml"
    path.write_text(YAML)
    settings.COULISSE_CONFIG = path
    before = live.current_or_none()
    live.set_current(live.read_effective(path))
    yield path
    live.set_current(before)
    forget()


def forget():
    Override.objects.all().delete()
    OverrideVersion.objects.all().delete()


@pytest.fixture
def agents():
    return overridable_entries.get_section("agents")


@pytest.fixture
def run(file):
    def run(*words, command="overrides"):
        output, remarks = StringIO(), StringIO()
        call_command(command, *words, config=str(file), stdout=output, stderr=remarks)
        return output.getvalue() + remarks.getvalue()

    return run


def test_overrides_command_lists_changed_entries(run, agents):
    assert "there are no overrides" in run()
    override_editor.save_entry(agents, "bob", BOB, by="user:ada")
    override_editor.create_entry(agents, DAN, by="user:ada")
    lines = run("list").splitlines()
    assert [line.split("  ")[:3] for line in lines] == [
        ["agents", "bob", "override"],
        ["agents", "dan", "dynamic"],
    ]
    assert lines[0].endswith("by user:ada")
    output = json.loads(run("list", "--json"))
    assert (output[0]["yaml"], output[1]["label"]) == (BOB, "dynamic")


def test_overrides_command_shows_diff_and_history(run, agents):
    override_editor.save_entry(agents, "bob", BOB, by="user:ada")
    lines = run("show", "agents", "bob").splitlines()
    assert "model: better" in lines
    assert "+model: better" in lines
    assert lines[-1].endswith("saved       by user:ada")
    with pytest.raises(CommandError, match="there is no agent 'bobb'; did you mean"):
        run("show", "agents", "bobb")
    with pytest.raises(CommandError, match="only agents, auth"):
        run("show", "agent", "bob")


def test_overrides_command_resets_and_audits(run, agents):
    AuditEntry.objects.all().delete()
    override_editor.save_entry(agents, "bob", BOB, by="user:ada")
    override_editor.create_entry(agents, DAN, by="user:ada")
    assert run("reset", "agents", "bob") == "reset agent 'bob' to the YAML file\n"
    assert run("reset", "agents", "dan") == "deleted agent 'dan'\n"
    assert not Override.objects.exists()
    output = [
        (entry.action, entry.target) for entry in AuditEntry.objects.order_by("id")
    ]
    assert output == [("agent.reset", "bob"), ("agent.delete", "dan")]
    assert AuditEntry.objects.first().actor.startswith("command line")
    with pytest.raises(CommandError, match="has no override to reset"):
        run("reset", "agents", "bob")


def test_overrides_command_undoes_a_blocking_override(run, agents, file):
    override_editor.disable_entry(agents, "bob", by="user:ada")
    file.write_text(BOTH)
    with pytest.raises(
        CommandError, match=r"E014.*`coulisse overrides reset agents bob`"
    ):
        run(command="check")
    assert "rejected" in run()
    assert "which is not under agents" in run()
    run("reset", "agents", "bob")
    assert "with" not in run(command="check")


def test_check_reports_overrides(run, agents, file):
    override_editor.create_entry(
        agents, DAN.replace("openai", "openai # mine"), by="user:ada"
    )
    assert "\nwith 1 override from the studio\n" in run(command="check")
    assert "3 agents" in run(command="check")
    file.write_text(YAML.replace("openai", "other").replace("x}", "x, kind: openai}"))
    output = run(command="check")
    assert "warning: agent 'dan' in the studio is rejected: " in output
    assert "uses provider 'openai', which is not under providers:" in output


def test_overrides_of_sections_are_listed_shown_and_reset(run, file):
    overlays = [
        Overlay("limits", "limits", "- {per: principal, requests_per_day: 9}"),
        Overlay("providers", "openai", "{api_key: ${TEST_KEY:-x}, retries: 3}"),
    ]
    with transaction.atomic():
        for overlay in overlays:
            Override.objects.store(overlay, by="studio: olga")
    listed = run().splitlines()
    assert [line.split("  since")[0] for line in listed] == [
        "limits  limits  dynamic",
        "providers  openai  override",
    ]
    shown = run("show", "providers", "openai")
    assert "-{api_key: ••••••••}" in shown
    assert "+{api_key: ${TEST_KEY:-x}, retries: 3}" in shown
    assert "- {per: principal" in run("show", "limits")
    assert "with 2 overrides from the studio" in run(command="check")
    assert run("reset", "limits") == "deleted 'limits'\n"
    assert run("reset", "providers", "openai") == (
        "reset 'providers.openai' to the YAML file\n"
    )
    assert not Override.objects.exists()
    entries = AuditEntry.objects.newest_first().values_list("action", "target")[:2]
    assert list(entries) == [
        ("config.reset", "providers.openai"),
        ("config.delete", "limits"),
    ]
    with pytest.raises(CommandError, match="'server' cannot be overridden"):
        run("reset", "server")
