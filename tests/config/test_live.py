import logging
import os
import time
from pathlib import Path

import pytest

from config import live
from config.errors import ConfigInvalid
from config.loading import loader
from tests.config.conftest import COOK, COOKS, KITCHEN, MENU


def wait_until(condition, seconds=60.0):
    """Wait for a condition and return the seconds it took."""
    began = time.monotonic()
    while not condition():
        assert time.monotonic() - began < seconds, "it never came true"
        time.sleep(0.005)
    return time.monotonic() - began


def watcher_records(caplog):
    """Return the records of the watchers, without those of other loggers."""
    return [record for record in caplog.records if record.name == live.__name__]


def cook_names():
    return [cook.name for cook in live.current().get(COOKS)]


@pytest.fixture
def running_watcher(file, caplog):
    """A watcher with a running thread, on a valid file."""
    caplog.set_level(logging.INFO)
    file.write_text(COOK)
    watcher = live.ConfigWatcher()
    watcher.start()
    yield watcher
    watcher.stop()


@pytest.fixture
def watcher(file, caplog):
    """A watcher without a thread; the tests call `poll`."""
    caplog.set_level(logging.INFO)
    file.write_text(COOK)
    return live.ConfigWatcher()


def test_relative_config_path_survives_chdir(file, monkeypatch, tmp_path_factory):
    file.write_text(COOK)
    live.set_current(loader.load_file(Path(file.name)))
    watcher = live.ConfigWatcher()
    monkeypatch.chdir(tmp_path_factory.mktemp("elsewhere"))
    Path(file.name).write_text("cooks: [{name: bob}]\n")
    watcher.poll()
    assert cook_names() == ["ann"]


def test_config_is_loaded_once_on_first_use(file):
    file.write_text(COOK)
    config = live.current()
    file.write_text("broken")
    assert live.current() is config


def test_invalid_first_file_is_refused_each_time(file):
    file.write_text("broken")
    for _ in range(2):
        with pytest.raises(ConfigInvalid):
            live.current()


def test_set_current_replaces_the_configuration(load):
    config = load(COOK)
    live.set_current(config)
    assert live.current() is config


def write(file, text):
    file.write_text(text)


def swap(file, text):
    new = file.with_suffix(".new")
    new.write_text(text)
    os.replace(new, file)


def relink(file, text):
    """As Kubernetes changes a ConfigMap: the file leads through a swapped link."""
    folder = file.parent / f"..{time.monotonic_ns()}"
    folder.mkdir()
    (folder / file.name).write_text(text)
    link = file.parent / "..new"
    link.symlink_to(folder.name)
    os.replace(link, file.parent / "..data")
    if not file.is_symlink():
        swapped = file.parent / "swapped"
        swapped.symlink_to(f"..data/{file.name}")
        os.replace(swapped, file)


@pytest.mark.parametrize("edit", [write, swap, relink])
def test_edit_is_live_within_a_second(running_watcher, file, edit):
    for name in ("bob", "cleo"):
        edit(file, f"cooks: [{{name: {name}}}]\n")
        # On a machine that is four times slower than it might be.
        assert wait_until(lambda name=name: cook_names() == [name]) < 4


def test_watcher_polls_unreported_edits(running_watcher, file, tmp_path_factory):
    elsewhere = tmp_path_factory.mktemp("elsewhere") / "real.yaml"
    elsewhere.write_text(COOK + "menu: {tea: 1}\n")
    file.unlink()
    file.symlink_to(elsewhere)
    wait_until(lambda: live.current().get(MENU) == {"tea": 1})
    elsewhere.write_text(COOK + "menu: {tea: 2}\n")
    wait_until(lambda: live.current().get(MENU) != {"tea": 1})
    assert live.current().get(MENU) == {"tea": 2}


def test_watcher_polls_when_watching_fails(file, monkeypatch, caplog):
    def out_of_watches(*args, **kwargs):
        raise OSError("no space left")

    monkeypatch.setattr(live.watchfiles, "watch", out_of_watches)
    monkeypatch.setattr(live, "POLL_SECONDS", 0.01)
    file.write_text(COOK)
    watcher = live.ConfigWatcher()
    watcher.start()
    file.write_text("cooks: [{name: bob}]\n")
    wait_until(lambda: cook_names() == ["bob"])
    watcher.stop()
    assert "so the file is polled" in caplog.text


def test_exception_in_a_check_does_not_end_the_watcher(
    running_watcher, file, monkeypatch, caplog
):
    def fail(*args):
        raise RuntimeError("a fault in a check")

    with monkeypatch.context() as patch:
        patch.setattr(live.loader, "parse_config", fail)
        file.write_text("cooks: [{name: bob}]\n")
        wait_until(lambda: "a fault in a check" in caplog.text)
    before = cook_names()
    file.write_text("cooks: [{name: bob}] # again\n")
    wait_until(lambda: cook_names() != before)
    assert cook_names() == ["bob"]


def test_invalid_edit_is_logged_and_old_config_stays(running_watcher, file, caplog):
    # Replaced at once: content that stays half-written for too long is logged, too.
    swap(file, "cooks: [{name: bob, pace: x}]\nmenu: {tea: y}\n")
    wait_until(lambda: "is invalid" in caplog.text)
    file.with_name("other").touch()
    swap(file, "cooks: [{name: cleo}]\n")
    wait_until(lambda: cook_names() == ["cleo"])
    assert caplog.text.count("is invalid") == 1
    assert "'pace' must be" in caplog.text
    assert "dish 'tea'" in caplog.text


def test_invalid_edit_is_logged_only_once(watcher, file, caplog):
    file.write_text("cooks: 3")
    watcher.poll()
    assert watcher_records(caplog) == []  # it may be half written
    for _ in range(3):
        watcher.poll()
    assert caplog.text.count("the previous configuration stays in force") == 1
    assert [record.has_lines for record in watcher_records(caplog)] == [True]
    assert cook_names() == ["ann"]


def test_deleted_file_is_logged_and_old_config_stays(watcher, file, caplog):
    file.unlink()
    for _ in range(3):
        watcher.poll()
    assert caplog.text.count("the file does not exist") == 1
    assert cook_names() == ["ann"]
    file.write_text(COOK)
    watcher.poll()
    assert "nothing changed" in caplog.text


def test_pipe_as_config_file_does_not_block(watcher, file, caplog):
    file.unlink()
    os.mkfifo(file)
    for _ in range(3):
        watcher.poll()
    assert caplog.text.count("this is not a file but a pipe or a device") == 1
    assert cook_names() == ["ann"]


def test_reload_log_names_the_changes(watcher, file, caplog):
    file.write_text("cooks: [{name: ann}, {name: bob}]\nmenu: {tea: 1}\n")
    watcher.poll()
    file.write_text("cooks: [{name: ann, api_key: sk-secret}, {name: cleo}]\n")
    watcher.poll()
    assert [record.message for record in watcher_records(caplog)] == [
        "coulisse.yaml reloaded: cooks: added 'bob'; menu: added 'tea'",
        "coulisse.yaml reloaded: cooks: added 'cleo', removed 'bob', changed 'ann'; "
        "menu: removed 'tea'",
    ]


def test_reload_log_mentions_a_new_order(watcher, file, caplog):
    for text in ("[{name: ann}, {name: bob}]", "[{name: bob}, {name: ann}]"):
        file.write_text(f"cooks: {text}\n")
        watcher.poll()
    assert (
        watcher_records(caplog)[-1].message
        == "coulisse.yaml reloaded: cooks: reordered"
    )


def test_setting_that_needs_restart_keeps_its_value(watcher, file, caplog):
    file.write_text("cooks: [{name: bob}]\nkitchen: {stoves: 4}\n")
    watcher.poll()
    assert cook_names() == ["bob"]
    assert live.current().get(KITCHEN).stoves == 1
    assert (
        watcher_records(caplog)[-1].message == "restart to apply the changes in kitchen"
    )
    file.write_text("cooks: [{name: bob}]\n")
    caplog.clear()
    watcher.poll()
    assert "restart" not in caplog.text


def test_file_digest_follows_the_content_in_force(watcher, file):
    assert live.file_digest() == loader.content_digest(COOK.encode())
    edited = f"{COOK}kitchen: {{}}\n"
    file.write_text(edited)
    watcher.poll()
    assert live.file_digest() == loader.content_digest(edited.encode())
    # Content that is not in force does not count.
    file.write_text("cooks: 1\n")
    for _ in range(2):
        watcher.poll()
    assert live.file_digest() == loader.content_digest(edited.encode())
    live.set_current(None)
    assert live.file_digest() == ""
