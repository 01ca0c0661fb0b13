"""A process that starts while the file is broken serves what was valid last."""

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


def test_it_starts_with_what_was_valid_last(file, caplog):
    good = start(file, GOOD)
    again = start(file, "cooks: [")
    assert again.values == good.values
    assert "what was valid last is in force" in caplog.text


def test_it_refuses_when_nothing_was_ever_valid(file):
    with pytest.raises(ConfigInvalid):
        start(file, "cooks: [")


def test_a_valid_edit_is_kept(file):
    start(file, GOOD)
    watcher = live.ConfigWatcher()
    file.write_text("cooks: [{name: bob}]\n")
    watcher.poll()
    assert last_valid_copy.read_copy() == b"cooks: [{name: bob}]\n"


def test_a_directory_that_takes_no_copy_stops_nobody(file, settings):
    settings.COULISSE_STATE_DIR = file.parent / "missing"
    assert start(file, GOOD).values
