"""Overrides that conflict with the file, after an edit and at a start."""

import pytest

from config import live
from config.loading import last_valid_copy
from config.models import Override
from config.overrides import overridable_entries, override_editor
from tests.config.overrides.conftest import (
    BOB,
    BY,
    DAN,
    FILE,
    JUDGE,
    NOW,
    labels,
    models,
    refusal,
)

pytestmark = [
    pytest.mark.database,
    pytest.mark.usefixtures("database", "override_file"),
]

# Edits of the file.


def test_override_broken_by_the_file_is_rejected_until_fixed(
    agents, watcher, file, caplog
):
    override_editor.create_entry(agents, DAN, by=BY)
    override_editor.save_entry(agents, "bob", BOB.replace("openai", "other"), by=BY)
    without = FILE.replace("  other: ", "  another: ")
    file.write_text(without)
    watcher.poll()
    assert models() == {"ann": "gpt-a", "bob": "gpt-b", "cleo": "gpt-c"}
    found = {e.name: e for e in overridable_entries.list_entries(agents)}
    assert (found["bob"].label, found["bob"].is_rejected) == ("override", True)
    assert (found["dan"].label, found["dan"].value) == ("dynamic", None)
    assert "uses provider 'other', which is not" in found["dan"].reason
    logged = [r.message for r in caplog.records if "is rejected" in r.message]
    assert [line.split("'")[1] for line in logged] == ["dan", "bob"]
    assert logged[0].startswith(
        "agent 'dan' in the studio is rejected; the file's value applies: agent "
        "'dan' uses provider 'other'"
    )
    # Other entries can still be changed, and the rejected one can be fixed.
    again = DAN.replace("gpt-d", "gpt-e")
    assert "uses provider 'other'" in refusal(
        override_editor.save_entry, agents, "dan", again, by=BY
    )
    override_editor.save_entry(agents, "cleo", BOB.replace("bob", "cleo"), by=BY)
    override_editor.save_entry(agents, "dan", DAN.replace("other", "another"), by=BY)
    assert models()["dan"] == "gpt-d"
    file.write_text(FILE + "# again\n")
    watcher.poll()
    assert models()["bob"] == "gpt-x"


def test_dependents_of_a_rejected_override_are_rejected(agents, watcher, file):
    override_editor.create_entry(agents, DAN, by=BY)
    text = "name: second\nstrategy: split\nvariants: [{agent: dan}, {agent: ann}]\n"
    override_editor.create_entry(
        overridable_entries.get_section("experiments"), text, by=BY
    )
    file.write_text(FILE.replace("  other: ", "  another: "))
    watcher.poll()
    aside = [(a.section, a.name) for a in live.current().rejected_overrides]
    assert aside == [("agents", "dan"), ("experiments", "second")]


REFERS = FILE.replace("{agent: bob}]", "{agent: bob}, {agent: cleo}]")


def test_edit_blocked_by_a_tombstone_names_it(agents, watcher, file, caplog):
    override_editor.disable_entry(agents, "cleo", by=BY)
    file.write_text(REFERS)
    for _ in range(3):
        watcher.poll()
    assert list(models()) == ["ann", "bob"]
    (logged,) = [r.getMessage() for r in caplog.records if "is invalid" in r.message]
    assert "variant 'cleo', which is not under agents:" in logged
    assert "agent 'cleo' is disabled there" in logged
    assert "`coulisse overrides reset agents cleo`" in logged
    override_editor.reset_entry(agents, "cleo", by=BY)
    watcher.poll()
    experiments = overridable_entries.get_section("experiments")
    assert len(live.current().get(experiments)["trial"].variants) == 3


def test_edit_blocked_by_several_overrides_names_each(agents, watcher, file):
    file.write_text(FILE[: FILE.index("experiments:")])
    watcher.poll()
    override_editor.create_entry(agents, DAN, by=BY)
    for name in ("bob", "cleo"):
        override_editor.disable_entry(agents, name, by=BY)
    file.write_text(REFERS)
    for _ in range(2):
        watcher.poll()
    logged = str(live.file_error())
    assert ": agent 'bob' is disabled there, agent 'cleo' is disabled there" in logged
    assert "'dan'" not in logged


def count_check(config):
    """Count how often a configuration is checked."""
    CHECKED.append(config)
    return ()


CHECKED: list[object] = []


def test_blocking_override_is_found_by_bisection(agents, watcher, file, settings):
    judges = overridable_entries.get_section("judges")
    override_editor.create_entry(judges, JUDGE, by=BY)
    when = {"version": 1, "changed_at": NOW, "changed_by": BY}
    body = "provider: openai\nmodel: gpt-n\njudges: [own]\n"
    Override.objects.bulk_create(
        Override(section="agents", name=name, body=f"name: {name}\n{body}", **when)
        for name in (f"n{number}" for number in range(60))
    )
    override_editor.disable_entry(agents, "cleo", by=BY)
    file.write_text(REFERS)
    settings.COULISSE_CHECKS = [*settings.COULISSE_CHECKS, f"{__name__}.count_check"]
    CHECKED.clear()
    for _ in range(2):
        watcher.poll()
    assert "from the studio: agent 'cleo' is disabled there;" in str(live.file_error())
    assert len(CHECKED) < 2 * 16


def test_entry_added_to_the_file_becomes_an_override(agents, watcher, file):
    override_editor.create_entry(agents, DAN, by=BY)
    more = "  - {name: dan, provider: openai, model: gpt-file}\n\njudges:"
    file.write_text(FILE.replace("\njudges:", more))
    watcher.poll()
    assert labels()["dan"] == "override"
    assert models()["dan"] == "gpt-d"


def test_override_removed_from_the_file_becomes_dynamic(agents, watcher, file):
    override_editor.save_entry(agents, "cleo", DAN.replace("dan", "cleo"), by=BY)
    file.write_text(
        FILE[: FILE.index("  - name: cleo")] + FILE[FILE.index("judges:\n") :]
    )
    watcher.poll()
    assert labels()["cleo"] == "dynamic"
    assert models()["cleo"] == "gpt-d"


# Starts.


def test_start_applies_stored_overrides(agents):
    override_editor.save_entry(agents, "bob", BOB, by=BY)
    live.set_current(None)
    live.load_at_start()
    assert models()["bob"] == "gpt-x"
    live.set_current(None)
    assert live.current().overlays.version  # as commands read it
    assert live.read_effective(live.current().path).get(agents)["bob"].model == "gpt-x"


def test_invalid_overrides_do_not_stop_a_start(agents, file, caplog):
    override_editor.disable_entry(agents, "cleo", by=BY)
    override_editor.create_entry(agents, DAN, by=BY)
    Override.objects.filter(name="dan").update(body="nonsense: [")
    file.write_text(REFERS)
    live.set_current(None)
    live.load_at_start()
    assert list(models()) == ["ann", "bob", "cleo"]
    assert {a.name for a in live.current().rejected_overrides} == {"cleo", "dan"}
    assert caplog.text.count("is rejected") == 2


def test_start_prefers_the_last_valid_copy(agents, file, caplog):
    override_editor.disable_entry(agents, "cleo", by=BY)
    last_valid_copy.write_copy(FILE.encode())
    file.write_text(REFERS)
    live.set_current(None)
    live.load_at_start()
    assert list(models()) == ["ann", "bob"]
    assert "its last valid content stays in force" in caplog.text


def test_override_of_a_removed_section_is_rejected(agents, settings):
    override_editor.create_entry(agents, DAN, by=BY)
    Override.objects.filter(name="dan").update(section="cooks")
    live.set_current(None)
    live.load_at_start()
    (aside,) = live.current().rejected_overrides
    assert aside.reason == "'cooks' cannot be changed in the studio"
