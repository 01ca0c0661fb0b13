"""What the studio says over the file: judged, stored, in force, with its history."""

import logging
import threading
from datetime import UTC, datetime

import pytest
from django.db import connection, connections

from config import live
from config.errors import (
    ConfigInvalid,
    EntryChanged,
    EntryTaken,
    EntryUnknown,
    NothingToReset,
)
from config.loading import last_valid_copy
from config.models import Override, OverrideVersion
from config.overrides import entry_texts, overridable_entries, override_editor

pytestmark = [pytest.mark.database, pytest.mark.usefixtures("database", "own")]

FILE = """\
vars: {tone: kind}
providers:
  openai: {api_key: k, base_url: http://localhost:1/v1}
  other: {kind: openai, api_key: k, base_url: http://localhost:1/v1}

agents:
  # The first one.
  - name: ann
    provider: openai   # the cheap one
    model: gpt-a
    preamble: |
      Be ${vars.tone}.

      Be brief.
    judges: [quality]

  # The second one.
  - {name: bob, provider: openai, model: gpt-b}
  - name: cleo
    provider: openai
    model: gpt-c

judges:
  - name: quality
    provider: openai
    model: gpt-j
    rubrics: {clear: It is clear.}

experiments:
  - name: trial
    strategy: split
    variants: [{agent: ann}, {agent: bob}]
"""
BOB = "# mine\nname: bob\nprovider: openai\nmodel: gpt-x # newer\n"
DAN = "name: dan\nprovider: other\nmodel: gpt-d\n"
JUDGE = "name: own\nprovider: openai\nmodel: gpt-j\nrubrics: {brief: It is brief.}\n"
BY = "user:ada"
NOW = datetime(2026, 11, 21, tzinfo=UTC)


@pytest.fixture
def own(database, real_sections, file, caplog):
    """The file, in force, and nothing in the tables; nothing is left there."""
    caplog.set_level(logging.INFO)
    forget()
    file.write_text(FILE)
    (file.parent / ".coulisse").mkdir()
    yield
    forget()


@pytest.fixture(autouse=True)
def _state(settings, tmp_path):
    settings.COULISSE_STATE_DIR = tmp_path / ".coulisse"


def forget():
    Override.objects.all().delete()
    OverrideVersion.objects.all().delete()


@pytest.fixture
def agents():
    return overridable_entries.get_section("agents")


def models():
    section = overridable_entries.get_section("agents")
    found = live.current().get(section)
    return {name: agent.model for name, agent in found.items()}


def diff(section, name):
    return overridable_entries.diff_entry(overridable_entries.get_entry(section, name))


def labels():
    section = overridable_entries.get_section("agents")
    entries = overridable_entries.list_entries(section)
    return {entry.name: entry.label for entry in entries}


def refusal(function, *args, **kwargs):
    with pytest.raises(ConfigInvalid) as caught:
        function(*args, **kwargs)
    return str(caught.value)


# What runs.


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
    with pytest.raises(EntryUnknown, match="only those of agents, experiments, judges"):
        overridable_entries.get_section("agent")


# What is refused.


def test_validation_errors_have_positions_in_the_entry(agents):
    told = refusal(
        override_editor.save_entry,
        agents,
        "bob",
        "name: bob\nprovider: opena\nmodel: x\n",
        by=BY,
    )
    assert told == (
        "agent 'bob' in the studio:2:1: agent 'bob' uses provider 'opena', which is "
        "not under providers:; did you mean 'openai'?"
    )
    assert models()["bob"] == "gpt-b"
    assert not OverrideVersion.objects.exists()


def test_type_and_syntax_errors_have_line_numbers(agents):
    told = refusal(
        override_editor.create_entry, agents, "name: dan\nprovider: openai\n", by=BY
    )
    assert told.startswith("agent 'dan' in the studio:1:1: agent 'dan': 'model' is")
    told = refusal(
        override_editor.save_entry, agents, "bob", "name: bob\n\tmodel: x", by=BY
    )
    assert told.startswith("agent 'bob' in the studio:2:1: not valid YAML")
    assert "empty" in refusal(override_editor.create_entry, agents, " ", by=BY)


def test_disabling_a_referenced_entry_names_the_reference(agents):
    told = refusal(override_editor.disable_entry, agents, "bob", by=BY)
    assert told == (
        "coulisse.yaml:32:31: experiment 'trial' has the variant 'bob', which is not "
        "under agents:"
    )
    judges = overridable_entries.get_section("judges")
    told = refusal(override_editor.disable_entry, judges, "quality", by=BY)
    assert "agent 'ann' names judge 'quality', which is not under judges:" in told
    assert labels()["bob"] == "yaml"


def test_reset_that_breaks_references_is_refused(agents, own, file):
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
    told = refusal(override_editor.disable_entry, agents, "dan", by=BY)
    assert told.startswith(
        "experiment 'second' in the studio:3:13: experiment 'second'"
    )


def test_only_the_cause_of_dependent_errors_is_reported(agents):
    override_editor.create_entry(agents, DAN, by=BY)
    text = "name: second\nstrategy: split\nvariants: [{agent: dan}, {agent: ann}]\n"
    override_editor.create_entry(
        overridable_entries.get_section("experiments"), text, by=BY
    )
    wrong = DAN + "judges: [nobody]\n"
    told = refusal(override_editor.save_entry, agents, "dan", wrong, by=BY)
    assert told.startswith("agent 'dan' in the studio:4:")
    assert "\n" not in told
    assert (
        "\n".join(map(str, override_editor.validate_entry(agents, wrong, name="dan")))
        == told
    )


def test_entry_name_must_match_its_text(agents):
    told = refusal(override_editor.save_entry, agents, "bob", DAN, by=BY)
    assert "the name is 'dan', but 'bob' in the URL" in told
    told = refusal(
        override_editor.save_entry, agents, "bob", "provider: openai\n", by=BY
    )
    assert told.endswith("agent: 'name' is missing; add 'name: bob'")
    assert "must be text" in refusal(
        override_editor.create_entry, agents, "name: 3\n", by=BY
    )
    assert "is missing" in refusal(
        override_editor.create_entry, agents, "name: ''\n", by=BY
    )
    for name in ('"a\\nb"', "n" * 256):
        told = refusal(override_editor.create_entry, agents, f"name: {name}\n", by=BY)
        assert "one line of at most 255" in told
    longest = "n" * 255
    override_editor.create_entry(agents, DAN.replace("dan", longest), by=BY)
    assert labels()[longest] == "dynamic"
    hiding = DAN.replace("dan", "new")
    assert "a page of the studio" in refusal(
        override_editor.create_entry, agents, hiding, by=BY
    )
    (told,) = override_editor.validate_entry(agents, hiding)
    assert "a page of the studio" in told.message


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
    told = refusal(
        override_editor.create_entry, agents, DAN.replace("dan", "trial"), by=BY
    )
    assert "experiment 'trial' has the same name as an agent" in told


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


# What is shown.


def test_entry_text_is_shown_as_in_the_file(agents):
    written = entry_texts.read_texts(FILE.encode(), "agents")
    assert written["ann"] == (
        "name: ann\nprovider: openai   # the cheap one\nmodel: gpt-a\npreamble: |\n"
        "  Be ${vars.tone}.\n\n  Be brief.\njudges: [quality]\n"
    )
    assert written["bob"] == "{name: bob, provider: openai, model: gpt-b}\n"
    assert list(written) == ["ann", "bob", "cleo"]


def test_aliases_are_expanded_in_entry_texts(monkeypatch):
    monkeypatch.setenv("NAME", "eve")
    text = FILE.replace(
        "  # The first one.", "  - &base {name: base, model: m}\n"
    ).replace("  - name: cleo", "  - <<: *base\n    name: ${NAME}")
    text = text.replace("    model: gpt-c", "    top_p: 0.5")
    assert entry_texts.read_texts(text.encode(), "agents")["eve"] == (
        "name: ${NAME}\nprovider: openai\ntop_p: 0.5\nmodel: m\n"
    )
    assert entry_texts.read_texts(b"- nothing", "agents") == {}


def test_diff_compares_the_written_texts(agents):
    assert diff(agents, "bob") == ""
    override_editor.save_entry(agents, "ann", BOB.replace("bob", "ann"), by=BY)
    told = overridable_entries.diff_entry(
        overridable_entries.get_entry(agents, "ann")
    ).splitlines()
    assert told[:2] == ["--- coulisse.yaml", "+++ studio"]
    assert "+# mine" in told
    assert "-provider: openai   # the cheap one" in told
    override_editor.disable_entry(agents, "cleo", by=BY)
    gone = overridable_entries.diff_entry(overridable_entries.get_entry(agents, "cleo"))
    assert "-name: cleo" in gone.splitlines()
    override_editor.create_entry(agents, DAN, by=BY)
    assert diff(agents, "dan") == ""


def test_history_lists_every_change_and_survives_removal(agents):
    override_editor.create_entry(agents, DAN, by=BY)
    override_editor.save_entry(agents, "dan", DAN + "seed: 1\n", by="user:eve")
    override_editor.save_entry(agents, "bob", BOB, by=BY)  # of another
    override_editor.disable_entry(agents, "dan", by=BY)
    told = overridable_entries.list_versions(agents, "dan")
    assert [(v.action, v.by) for v in told] == [
        *(("removed", BY), ("saved", "user:eve"), ("saved", BY))
    ]
    assert told[2].body == DAN
    older = overridable_entries.list_versions(agents, "dan", before=told[0].pk, limit=1)
    assert [v.pk for v in older] == [told[1].pk]
    assert overridable_entries.get_version(agents, "dan", told[2].pk).body == DAN
    with pytest.raises(EntryUnknown, match="has no version"):
        overridable_entries.get_version(agents, "bob", told[2].pk)


def test_list_takes_one_query(agents, django_assert_num_queries):
    for number in (1, 5):
        for each in range(number):
            text = DAN.replace("dan", f"dan{number}-{each}")
            override_editor.create_entry(agents, text, by=BY)
        with django_assert_num_queries(1):
            overridable_entries.list_entries(agents)
        with django_assert_num_queries(1):
            overridable_entries.get_entry(agents, "ann")


def test_browser_line_ends_are_normalised(agents):
    override_editor.create_entry(
        agents, "\ufeff" + DAN.strip().replace("\n", "\r\n"), by=BY
    )
    assert overridable_entries.get_entry(agents, "dan").text == DAN


# Edits of the file below it.


@pytest.fixture
def looking():
    """A watcher that looks when it is told to."""
    live.load_at_start()
    return live.ConfigWatcher()


def test_override_broken_by_the_file_is_rejected_until_fixed(
    agents, looking, file, caplog
):
    override_editor.create_entry(agents, DAN, by=BY)
    override_editor.save_entry(agents, "bob", BOB.replace("openai", "other"), by=BY)
    without = FILE.replace("  other: ", "  another: ")
    file.write_text(without)
    looking.poll()
    assert models() == {"ann": "gpt-a", "bob": "gpt-b", "cleo": "gpt-c"}
    found = {e.name: e for e in overridable_entries.list_entries(agents)}
    assert (found["bob"].label, found["bob"].is_rejected) == ("override", True)
    assert (found["dan"].label, found["dan"].value) == ("dynamic", None)
    assert "uses provider 'other', which is not" in found["dan"].reason
    told = [r.message for r in caplog.records if "is rejected" in r.message]
    assert [line.split("'")[1] for line in told] == ["dan", "bob"]
    assert told[0].startswith(
        "agent 'dan' in the studio is rejected; the file's value applies: agent "
        "'dan' uses provider 'other'"
    )
    # Others can be changed all the same, and itself mended, but with nothing broken.
    again = DAN.replace("gpt-d", "gpt-e")
    assert "uses provider 'other'" in refusal(
        override_editor.save_entry, agents, "dan", again, by=BY
    )
    override_editor.save_entry(agents, "cleo", BOB.replace("bob", "cleo"), by=BY)
    override_editor.save_entry(agents, "dan", DAN.replace("other", "another"), by=BY)
    assert models()["dan"] == "gpt-d"
    file.write_text(FILE + "# again\n")
    looking.poll()
    assert models()["bob"] == "gpt-x"


def test_dependents_of_a_rejected_override_are_rejected(agents, looking, file):
    override_editor.create_entry(agents, DAN, by=BY)
    text = "name: second\nstrategy: split\nvariants: [{agent: dan}, {agent: ann}]\n"
    override_editor.create_entry(
        overridable_entries.get_section("experiments"), text, by=BY
    )
    file.write_text(FILE.replace("  other: ", "  another: "))
    looking.poll()
    aside = [(a.section, a.name) for a in live.current().rejected_overrides]
    assert aside == [("agents", "dan"), ("experiments", "second")]


REFERS = FILE.replace("{agent: bob}]", "{agent: bob}, {agent: cleo}]")


def test_edit_blocked_by_a_tombstone_names_it(agents, looking, file, caplog):
    override_editor.disable_entry(agents, "cleo", by=BY)
    file.write_text(REFERS)
    for _ in range(3):
        looking.poll()
    assert list(models()) == ["ann", "bob"]
    (told,) = [r.getMessage() for r in caplog.records if "is invalid" in r.message]
    assert "variant 'cleo', which is not under agents:" in told
    assert "agent 'cleo' is disabled there" in told
    assert "`manage.py overrides reset agents cleo`" in told
    override_editor.reset_entry(agents, "cleo", by=BY)
    looking.poll()
    experiments = overridable_entries.get_section("experiments")
    assert len(live.current().get(experiments)["trial"].variants) == 3


def test_edit_blocked_by_several_overrides_names_each(agents, looking, file):
    file.write_text(FILE[: FILE.index("experiments:")])
    looking.poll()
    override_editor.create_entry(agents, DAN, by=BY)
    for name in ("bob", "cleo"):
        override_editor.disable_entry(agents, name, by=BY)
    file.write_text(REFERS)
    for _ in range(2):
        looking.poll()
    told = str(live.file_error())
    assert ": agent 'bob' is disabled there, agent 'cleo' is disabled there" in told
    assert "'dan'" not in told


def judged(config):
    """Count how often a configuration is judged."""
    JUDGED.append(config)
    return ()


JUDGED: list[object] = []


def test_blocking_override_is_found_by_bisection(agents, looking, file, settings):
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
    settings.COULISSE_CHECKS = [*settings.COULISSE_CHECKS, f"{__name__}.judged"]
    JUDGED.clear()
    for _ in range(2):
        looking.poll()
    assert "from the studio: agent 'cleo' is disabled there;" in str(live.file_error())
    assert len(JUDGED) < 2 * 16


def test_entry_added_to_the_file_becomes_an_override(agents, looking, file):
    override_editor.create_entry(agents, DAN, by=BY)
    more = "  - {name: dan, provider: openai, model: gpt-file}\n\njudges:"
    file.write_text(FILE.replace("\njudges:", more))
    looking.poll()
    assert labels()["dan"] == "override"
    assert models()["dan"] == "gpt-d"


def test_override_removed_from_the_file_becomes_dynamic(agents, looking, file):
    override_editor.save_entry(agents, "cleo", DAN.replace("dan", "cleo"), by=BY)
    file.write_text(
        FILE[: FILE.index("  - name: cleo")] + FILE[FILE.index("judges:\n") :]
    )
    looking.poll()
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


# Other processes, and a database that is away.


def test_watcher_applies_overrides_of_other_processes(agents, looking):
    its = {"section": "agents", "name": "bob", "body": BOB}
    made = OverrideVersion.objects.create(**its, action="saved", at=NOW, by=BY)
    Override.objects.create(**its, version=made.pk, changed_at=made.at, changed_by=BY)
    assert models()["bob"] == "gpt-b"
    looking.poll()
    assert models()["bob"] == "gpt-x"


def test_broken_file_is_logged_once_despite_overrides(agents, looking, file, caplog):
    def told():
        for _ in range(3):
            looking.poll()
        return caplog.text.count("the previous configuration stays in force")

    broken = FILE + "nonsense: 1\n"
    file.write_text(broken)
    assert told() == 1
    override_editor.save_entry(agents, "bob", BOB, by=BY)
    assert told() == 1
    assert "nonsense" in str(live.file_error())
    file.write_text(FILE)
    assert told() == 1
    file.write_text(broken)
    assert told() == 2


def test_override_is_not_reported_as_a_file_edit(agents):
    told = []
    live.load_at_start()
    watcher = live.ConfigWatcher(lambda config, sections: told.append(sections))
    override_editor.save_entry(agents, "bob", BOB, by=BY)
    watcher.poll()
    assert told == []


def test_yaml_runs_alone_until_the_database_returns(agents, monkeypatch, caplog):
    override_editor.save_entry(agents, "bob", BOB, by=BY)
    live.set_current(None)
    monkeypatch.setattr("config.overrides.override_store.RETRY_SECONDS", 0.0)
    with monkeypatch.context() as patch:
        # Of every thread, this one's too.
        patch.setitem(connections.settings["default"], "NAME", "/nowhere/at.all")
        patch.setitem(connection.settings_dict, "NAME", "/nowhere/at.all")
        connection.close()
        live.load_at_start()
        watcher = live.ConfigWatcher()
        watcher.poll()
        assert models()["bob"] == "gpt-b"
    connection.close()
    assert caplog.text.count("database unavailable") == 1
    watcher.poll()
    assert models()["bob"] == "gpt-x"


def test_broken_database_connection_is_reopened(agents, monkeypatch):
    monkeypatch.setattr("config.overrides.override_store.RETRY_SECONDS", 0.0)
    override_editor.create_entry(agents, DAN, by=BY)
    version = live.get_store().newest_version()
    connection.connection.close()
    assert live.get_store().newest_version() is None
    assert live.get_store().newest_version() == version


def test_missing_override_table_is_silent(agents, monkeypatch):
    with monkeypatch.context() as patch:
        for model in (Override, OverrideVersion):
            patch.setattr(model._meta, "db_table", "config_nothing")
        assert live.get_store().newest_version() == 0
        assert live.get_store().read().entries == ()


def test_file_must_be_valid_without_overrides(agents, looking, file, caplog):
    override_editor.create_entry(agents, DAN, by=BY)
    file.write_text(FILE.replace("{agent: bob}]", "{agent: dan}]"))
    for _ in range(2):
        looking.poll()
    assert "variant 'dan', which is not under agents" in caplog.text
    assert list(models()) == ["ann", "bob", "cleo", "dan"]
