"""A start with an invalid file uses the last valid copy."""

import pytest

from config import live
from config.errors import ConfigInvalid
from config.loading import last_valid_copy

GOOD = "cooks: [{name: ann}]\n"


@pytest.fixture(autouse=True)
def _project(file, settings):
    settings.COULISSE_STATE_DIR = file.parent / ".coulisse"
    settings.COULISSE_STATE_DIR.mkdir()


def start(file, text):
    file.write_text(text)
    live.set_current(None)
    return live.load_at_start()


def test_start_uses_the_last_valid_copy(file, caplog):
    good = start(file, GOOD)
    again = start(file, "cooks: [")
    assert again.values == good.values
    assert "its last valid content stays in force" in caplog.text


def test_start_fails_without_a_valid_copy(file):
    with pytest.raises(ConfigInvalid):
        start(file, "cooks: [")


def test_valid_edit_is_stored_as_last_valid(file):
    start(file, GOOD)
    watcher = live.ConfigWatcher()
    file.write_text("cooks: [{name: bob}]\n")
    watcher.poll()
    assert last_valid_copy.read_copy() == b"cooks: [{name: bob}]\n"


def test_unwritable_state_directory_does_not_stop_the_start(file, settings):
    settings.COULISSE_STATE_DIR = file.parent / "missing"
    assert start(file, GOOD).values
