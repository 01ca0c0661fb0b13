"""Saving, disabling and resetting overrides: what takes effect and what is refused."""

import threading

import pytest
from django.db import connection

from config import live
from config.errors import (
    ConfigInvalid,
    EntryChanged,
    EntryTaken,
    EntryUnknown,
    NothingToReset,
)
from config.models import OverrideVersion
from config.overrides import overridable_entries, override_editor
from tests.config.overrides.conftest import BOB, BY, DAN, FILE, labels, models, refusal

pytestmark = [
    pytest.mark.database,
    pytest.mark.usefixtures("database", "override_file"),
]

# Effects.


def test_override_takes_effect_in_place(agents):
    override_editor.save_entry(agents, "bob", BOB, by=BY)
    assert models() == {"ann": "gpt-a", "bob": "gpt-x", "cleo": "gpt-c"}
    assert list(models()) == ["ann", "bob", "cleo"]


def test_new_entry_comes_last_and_can_be_removed(agents):
    assert override_editor.create_entry(agents, DAN, by=BY) == "dan"
    assert list(models()) == ["ann", "bob", "cleo", "dan"]
    assert labels()["dan"] == "dynamic"
    override_editor.disable_entry(agents, "dan", by=BY)
    assert "dan" not in models() | labels()


def test_tombstone_disables_and_reset_enables(agents):
    override_editor.disable_entry(agents, "cleo", by=BY)
    assert list(models()) == ["ann", "bob"]
    assert labels() == {"ann": "yaml", "bob": "yaml", "cleo": "tombstoned"}
    override_editor.disable_entry(agents, "cleo", by=BY)  # changes nothing
    override_editor.reset_entry(agents, "cleo", by=BY)
    assert list(models()) == ["ann", "bob", "cleo"]


def test_reset_restores_the_file_entry(agents):
    override_editor.save_entry(agents, "bob", BOB, by=BY)
    override_editor.reset_entry(agents, "bob", by=BY)
    assert models()["bob"] == "gpt-b"
    assert labels()["bob"] == "yaml"
    with pytest.raises(NothingToReset, match="has no override to reset"):
        override_editor.reset_entry(agents, "bob", by=BY)
    override_editor.create_entry(agents, DAN, by=BY)
    with pytest.raises(NothingToReset, match="delete it instead"):
        override_editor.reset_entry(agents, "dan", by=BY)


def test_override_replaces_a_tombstone(agents):
    override_editor.disable_entry(agents, "cleo", by=BY)
    override_editor.save_entry(agents, "cleo", DAN.replace("dan", "cleo"), by=BY)
    assert models()["cleo"] == "gpt-d"


def test_section_missing_in_the_file_can_be_filled(agents):
    tests = overridable_entries.get_section("smoke_tests")
    text = "name: s\ntarget: ann\npersona: {provider: openai, model: p, preamble: x}\n"
    override_editor.create_entry(tests, text, by=BY)
    assert list(live.current().get(tests)) == ["s"]
    assert [(e.name, e.label) for e in overridable_entries.list_entries(tests)] == [
        ("s", "dynamic")
    ]


def test_placeholders_and_variables_are_kept_and_expanded(agents, monkeypatch):
    monkeypatch.setenv("MODEL", "gpt-env")
    text = "name: dan\nprovider: openai\nmodel: ${MODEL}\npreamble: ${vars.tone}\n"
    override_editor.create_entry(agents, text, by=BY)
    entry = overridable_entries.get_entry(agents, "dan")
    assert (entry.value.model, entry.value.preamble) == ("gpt-env", "kind")
    assert entry.text == text


def test_overridable_sections_are_registered():
    for key in ("agents", "judges", "experiments", "smoke_tests"):
        assert overridable_entries.get_section(key).key == key
    with pytest.raises(EntryUnknown, match="only agents, auth"):
        overridable_entries.get_section("agent")


# Refused changes.


def test_validation_errors_have_positions_in_the_entry(agents):
    message = refusal(
        override_editor.save_entry,
        agents,
        "bob",
        "name: bob\nprovider: opena\nmodel: x\n",
        by=BY,
    )
    assert message == (
        "agent 'bob' in the studio:2:1: agent 'bob' uses provider 'opena', which is "
        "not under providers:; did you mean 'openai'?"
    )
    assert models()["bob"] == "gpt-b"
    assert not OverrideVersion.objects.exists()


def test_type_and_syntax_errors_have_line_numbers(agents):
    message = refusal(
        override_editor.create_entry, agents, "name: dan\nprovider: openai\n", by=BY
    )
    assert message.startswith("agent 'dan' in the studio:1:1: agent 'dan': 'model' is")
    message = refusal(
        override_editor.save_entry, agents, "bob", "name: bob\n\tmodel: x", by=BY
    )
    assert message.startswith("agent 'bob' in the studio:2:1: not valid YAML")
    assert "empty" in refusal(override_editor.create_entry, agents, " ", by=BY)


def test_disabling_a_referenced_entry_names_the_reference(agents):
    message = refusal(override_editor.disable_entry, agents, "bob", by=BY)
    assert message == (
        "agent 'bob' is in use; remove it from these entries first\n"
        "coulisse.yaml:32:31: experiment 'trial' has the variant 'bob'"
    )
    judges = overridable_entries.get_section("judges")
    message = refusal(override_editor.disable_entry, judges, "quality", by=BY)
    assert message.endswith("agent 'ann' names judge 'quality'")
    assert labels()["bob"] == "yaml"


def test_reset_that_breaks_references_is_refused(agents, override_file, file):
    file.write_text(FILE.replace("    judges: [quality]\n", "    subagents: [cleo]\n"))
    live.ConfigWatcher().poll()
    plain = "name: ann\nprovider: openai\nmodel: gpt-a\n"
    override_editor.save_entry(agents, "ann", plain, by=BY)
    override_editor.disable_entry(agents, "cleo", by=BY)
    assert "cleo" in refusal(override_editor.reset_entry, agents, "ann", by=BY)
    assert labels()["ann"] == "override"
    override_editor.reset_entry(agents, "cleo", by=BY)
    override_editor.reset_entry(agents, "ann", by=BY)
    assert labels()["ann"] == "yaml"


def test_references_from_overrides_block_disabling(agents):
    experiments = overridable_entries.get_section("experiments")
    override_editor.create_entry(agents, DAN, by=BY)
    text = "name: second\nstrategy: split\nvariants: [{agent: dan}, {agent: ann}]\n"
    override_editor.create_entry(experiments, text, by=BY)
    message = refusal(override_editor.disable_entry, agents, "dan", by=BY)
    assert "\nexperiment 'second' in the studio:3:13: experiment 'second'" in message


def test_only_the_cause_of_dependent_errors_is_reported(agents):
    override_editor.create_entry(agents, DAN, by=BY)
    text = "name: second\nstrategy: split\nvariants: [{agent: dan}, {agent: ann}]\n"
    override_editor.create_entry(
        overridable_entries.get_section("experiments"), text, by=BY
    )
    wrong = DAN + "judges: [nobody]\n"
    message = refusal(override_editor.save_entry, agents, "dan", wrong, by=BY)
    assert message.startswith("agent 'dan' in the studio:4:")
    assert "\n" not in message
    assert (
        "\n".join(map(str, override_editor.validate_entry(agents, wrong, name="dan")))
        == message
    )


def test_entry_name_must_match_its_text(agents):
    message = refusal(override_editor.save_entry, agents, "bob", DAN, by=BY)
    assert "the name is 'dan', but 'bob' in the URL" in message
    message = refusal(
        override_editor.save_entry, agents, "bob", "provider: openai\n", by=BY
    )
    assert message.endswith("agent: 'name' is missing; add 'name: bob'")
    assert "must be text" in refusal(
        override_editor.create_entry, agents, "name: [3]\n", by=BY
    )
    assert "is missing" in refusal(
        override_editor.create_entry, agents, "name: ''\n", by=BY
    )
    for name in ('"a\\nb"', "n" * 256):
        message = refusal(
            override_editor.create_entry, agents, f"name: {name}\n", by=BY
        )
        assert "one line of at most 255" in message
    longest = "n" * 255
    override_editor.create_entry(agents, DAN.replace("dan", longest), by=BY)
    assert labels()[longest] == "dynamic"
    hiding = DAN.replace("dan", "new")
    assert "a page of the studio" in refusal(
        override_editor.create_entry, agents, hiding, by=BY
    )
    (message,) = override_editor.validate_entry(agents, hiding)
    assert "a page of the studio" in message.message


def test_taken_name_is_a_conflict(agents):
    with pytest.raises(EntryTaken, match="already has the name 'bob'"):
        override_editor.create_entry(agents, BOB, by=BY)
    override_editor.create_entry(agents, DAN, by=BY)
    with pytest.raises(EntryTaken):
        override_editor.create_entry(agents, DAN, by=BY)
    override_editor.disable_entry(agents, "cleo", by=BY)
    with pytest.raises(EntryTaken, match="disabled; reset it"):
        override_editor.create_entry(agents, DAN.replace("dan", "cleo"), by=BY)


def test_agent_cannot_have_the_name_of_an_experiment(agents):
    message = refusal(
        override_editor.create_entry, agents, DAN.replace("dan", "trial"), by=BY
    )
    assert "experiment 'trial' has the same name as an agent" in message


def test_missing_entry_cannot_be_changed(agents):
    for change in (override_editor.disable_entry, override_editor.reset_entry):
        with pytest.raises(EntryUnknown, match="did you mean 'bob'"):
            change(agents, "bobb", by=BY)
    with pytest.raises(EntryUnknown):
        override_editor.save_entry(agents, "dan", DAN, by=BY)
    with pytest.raises(EntryUnknown):
        overridable_entries.get_entry(agents, "dan")


def test_outdated_change_is_refused(agents):
    override_editor.save_entry(agents, "bob", BOB, by=BY, version=0)
    shown = overridable_entries.get_entry(agents, "bob").version
    override_editor.save_entry(
        agents, "bob", BOB + "seed: 1\n", by="user:eve", version=shown
    )
    for change in (override_editor.disable_entry, override_editor.reset_entry):
        with pytest.raises(EntryChanged, match="changed by user:eve since"):
            change(agents, "bob", by=BY, version=shown)
    with pytest.raises(EntryChanged):
        override_editor.save_entry(agents, "bob", BOB, by=BY, version=0)
    override_editor.save_entry(
        agents, "bob", BOB, by=BY
    )  # a script that asks for no version


def test_conflicting_parallel_changes_refuse_one(agents):
    experiments = overridable_entries.get_section("experiments")
    text = "name: second\nstrategy: split\nvariants: [{agent: cleo}, {agent: ann}]\n"
    begin, outcomes = threading.Barrier(2), []

    def change(function, *args):
        begin.wait()
        try:
            function(*args, by=BY)
            outcomes.append("done")
        except ConfigInvalid:
            outcomes.append("refused")
        finally:
            connection.close()

    threads = [
        threading.Thread(
            target=change, args=(override_editor.disable_entry, agents, "cleo")
        ),
        threading.Thread(
            target=change, args=(override_editor.create_entry, experiments, text)
        ),
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(outcomes) == ["done", "refused"]
    assert live.current().rejected_overrides == ()
