"""Entries with their texts, differences and history."""

import pytest

from config.errors import (
    EntryUnknown,
)
from config.models import OverrideVersion
from config.overrides import entry_texts, overridable_entries, override_editor
from tests.config.overrides.conftest import BOB, BY, DAN, FILE, diff

pytestmark = [
    pytest.mark.database,
    pytest.mark.usefixtures("database", "override_file"),
]


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
    found = overridable_entries.get_entry(agents, "ann").diff.splitlines()
    assert found[:2] == ["--- coulisse.yaml", "+++ studio"]
    assert "+# mine" in found
    assert "-provider: openai   # the cheap one" in found
    override_editor.disable_entry(agents, "cleo", by=BY)
    gone = overridable_entries.get_entry(agents, "cleo").diff
    assert "-name: cleo" in gone.splitlines()
    override_editor.create_entry(agents, DAN, by=BY)
    assert diff(agents, "dan") == ""


def test_history_lists_every_change_and_survives_removal(agents):
    override_editor.create_entry(agents, DAN, by=BY)
    override_editor.save_entry(agents, "dan", DAN + "seed: 1\n", by="user:eve")
    override_editor.save_entry(agents, "bob", BOB, by=BY)  # of another
    override_editor.disable_entry(agents, "dan", by=BY)
    found = list(OverrideVersion.objects.of("agents", "dan"))
    assert [(v.action, v.by) for v in found] == [
        ("removed", BY),
        ("saved", "user:eve"),
        ("saved", BY),
    ]
    assert found[2].body == DAN
    override_editor.create_entry(agents, DAN, by=BY)
    entry = overridable_entries.get_entry(agents, "dan")
    assert len(entry.versions()) == 4
    older = entry.versions(before=found[0].pk, limit=1)
    assert [v.pk for v in older] == [found[1].pk]
    assert entry.get_version(found[2].pk).body == DAN
    bob = overridable_entries.get_entry(agents, "bob")
    with pytest.raises(EntryUnknown, match="has no version"):
        bob.get_version(found[2].pk)


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
