"""`import coulisse`: what the studio of the Rust version changed."""

import pytest

from config import live
from config.models import Override, OverrideVersion

pytestmark = pytest.mark.database

AGENT = {"provider": "openai", "model": "gpt-test", "preamble": "Be brief."}
JUDGE = {
    "provider": "openai",
    "model": "gpt-test",
    "rubrics": {"tone": "Is it kind?"},
    "sampling_rate": 1.0,
}


@pytest.fixture(autouse=True)
def no_overrides(database):
    yield
    Override.objects.all().delete()
    OverrideVersion.objects.all().delete()


def stored():
    rows = Override.objects.order_by("section", "name")
    return list(rows.values_list("section", "name", "is_tombstone"))


def test_entries_become_overrides_in_the_order_of_their_references(rust, run_import):
    rust.override("agents", "boss", {**AGENT, "name": "boss", "subagents": ["clerk"]})
    rust.override("agents", "clerk", {**AGENT, "name": "clerk", "judges": ["critic"]})
    rust.override("agents", "writer", {**AGENT, "name": "writer"})
    rust.override("judges", "critic", {**JUDGE, "name": "critic"})
    report = run_import()
    assert report["skipped"] == []
    assert report["counts"]["overrides"]["written"] == 4
    assert stored() == [
        ("agents", "boss", False),
        ("agents", "clerk", False),
        ("agents", "writer", False),
        ("judges", "critic", False),
    ]
    body = Override.objects.get(name="writer").body
    assert "preamble: Be brief." in body.splitlines()
    assert run_import()["counts"]["overrides"]["existing"] == 4


def test_entry_of_the_file_is_disabled(rust, run_import):
    rust.override("agents", "extra", {**AGENT, "name": "extra"})
    rust.override("agents", "writer", None)
    rust.override("judges", "critic", None)
    report = run_import()
    assert ("agents", "writer", True) in stored()
    (skipped,) = report["skipped"]
    assert skipped["examples"] == ["judge 'critic'"]
    assert skipped["reason"].startswith("there is no judge 'critic'")


def test_invalid_entries_are_skipped_with_the_message_of_the_validator(
    rust, run_import
):
    rust.override("agents", "old", {**AGENT, "name": "old", "colour": "red"})
    rust.override("agents", "torn", {}, config_json='{"name": ')
    rust.override("agents", "list", {}, config_json="[]")
    rust.override("agents", "good", AGENT)
    report = run_import()
    assert report["counts"]["overrides"]["skipped"] == 3
    reasons = [each["reason"] for each in report["skipped"]]
    assert any("colour" in reason for reason in reasons)
    assert "'config_json' is not JSON" in reasons
    assert stored() == [("agents", "good", False)]


def test_dry_run_changes_no_configuration(rust, run_import):
    rust.override("agents", "boss", {**AGENT, "subagents": ["clerk"]})
    rust.override("agents", "clerk", AGENT)
    assert run_import("--dry-run")["counts"]["overrides"]["written"] == 2
    assert stored() == []
    assert not live.current().overlays.entries
