"""Overrides of other processes, and an unavailable database."""

import pytest
from django.db import connection, connections

from config import live
from config.models import Override, OverrideVersion
from config.overrides import override_editor
from tests.config.overrides.conftest import BOB, BY, DAN, FILE, NOW, models

pytestmark = [
    pytest.mark.database,
    pytest.mark.usefixtures("database", "override_file"),
]


def test_watcher_applies_overrides_of_other_processes(agents, watcher):
    its = {"section": "agents", "name": "bob", "body": BOB}
    version = OverrideVersion.objects.create(**its, action="saved", at=NOW, by=BY)
    Override.objects.create(
        **its, version=version.pk, changed_at=version.at, changed_by=BY
    )
    assert models()["bob"] == "gpt-b"
    watcher.poll()
    assert models()["bob"] == "gpt-x"


def test_broken_file_is_logged_once_despite_overrides(agents, watcher, file, caplog):
    def reported():
        for _ in range(3):
            watcher.poll()
        return caplog.text.count("the previous configuration stays in force")

    broken = FILE + "nonsense: 1\n"
    file.write_text(broken)
    assert reported() == 1
    override_editor.save_entry(agents, "bob", BOB, by=BY)
    assert reported() == 1
    assert "nonsense" in str(live.file_error())
    file.write_text(FILE)
    assert reported() == 1
    file.write_text(broken)
    assert reported() == 2


def test_override_is_not_reported_as_a_file_edit(agents):
    reported = []
    live.load_at_start()
    watcher = live.ConfigWatcher(lambda config, sections: reported.append(sections))
    override_editor.save_entry(agents, "bob", BOB, by=BY)
    watcher.poll()
    assert reported == []


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


def test_file_must_be_valid_without_overrides(agents, watcher, file, caplog):
    override_editor.create_entry(agents, DAN, by=BY)
    file.write_text(FILE.replace("{agent: bob}]", "{agent: dan}]"))
    for _ in range(2):
        watcher.poll()
    assert "variant 'dan', which is not under agents" in caplog.text
    assert list(models()) == ["ann", "bob", "cleo", "dan"]
