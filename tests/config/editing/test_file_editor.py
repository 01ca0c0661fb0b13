"""Edits of the file: validated as a whole, one at a time."""

import subprocess
import sys
import threading

import pytest

from config import live
from config.editing import atomic_file, config_file, file_editor
from config.errors import (
    ConfigInvalid,
    EntryTaken,
    EntryUnknown,
    FileChanged,
)
from config.loading import loader
from tests.config.conftest import MENU
from tests.config.editing import edits
from tests.config.editing.conftest import FILE


def test_file_is_shown_with_masked_secrets(stored_file):
    shown = config_file.read_file()
    assert shown.text == FILE.replace("ann-secret", "••••••••")
    assert shown.data["cooks"][0]["api_key"] == "••••••••"
    assert shown.text_at(("menu",)) == "soup: 3"
    assert shown.data_at(("menu", "soup")) == 3
    assert shown.data_at(("kitchen",)) is None
    assert shown.text_at(("kitchen",)) == ""
    assert shown.line_of(("menu",)) == (8, 2)


def test_section_text_can_be_written(stored_file):
    after = edits.put_text(
        ("menu",), "soup: 4 # more\n", version=config_file.read_file().version
    )
    assert stored_file.read_text() == FILE.replace("soup: 3", "soup: 4 # more")
    assert after.version == config_file.read_file().version
    assert loader.load_file(stored_file).get(MENU) == {"soup": 4}


def test_watcher_loads_a_studio_write_like_an_edit(stored_file):
    watcher = live.ConfigWatcher()
    edits.put_text(("menu",), "soup: 5")
    watcher.poll()
    assert live.current().get(MENU) == {"soup": 5}


def test_write_validates_the_whole_file_first(stored_file):
    with pytest.raises(ConfigInvalid, match="'soup', which is not on it"):
        edits.put_text(("menu",), "cake: 1")
    with pytest.raises(ConfigInvalid, match=r"coulisse\.yaml:8:3: dish 'soup'"):
        edits.put_text(("menu",), "soup: many")
    with pytest.raises(ConfigInvalid, match="cooks"):
        edits.remove_entry(("cooks",))
    assert stored_file.read_text() == FILE


def test_problems_have_line_and_column(stored_file):
    def lines(problems):
        return [(p.position.line, p.position.column) for p in problems]

    assert lines(file_editor.check_text(("menu",), "soup: 1\ncake: many")) == [(2, 1)]
    assert lines(file_editor.check_text(("menu",), 'soup: "')) == [(1, 8)]
    (elsewhere,) = file_editor.check_text(("menu",), "cake: 1")
    assert elsewhere.position is None
    assert elsewhere.message.startswith("coulisse.yaml:5:5: cook 'ann' cooks 'soup'")
    assert file_editor.check_text(("menu",), "soup: 1") == []
    assert lines(file_editor.check_text((), FILE.replace("soup: 3", "soup: x"))) == [
        (8, 3)
    ]
    assert file_editor.check_text((), config_file.read_file().text) == []


def test_changed_file_is_not_overwritten(stored_file):
    shown = config_file.read_file().version
    stored_file.write_text(FILE + "# by hand\n")
    for change in (
        lambda: edits.put_text(("menu",), "soup: 4", version=shown),
        lambda: edits.put_data(("menu",), {"soup": 4}, version=shown),
        lambda: edits.write_text(FILE, version=shown),
        lambda: edits.remove_entry(("menu",), version=shown),
    ):
        with pytest.raises(FileChanged):
            change()
    assert stored_file.read_text() == FILE + "# by hand\n"
    edits.put_text(("menu",), "soup: 4")
    assert stored_file.read_text().endswith("soup: 4\n# by hand\n")


def test_concurrent_external_edit_is_not_lost(stored_file):
    def record(write):
        stored_file.write_text(FILE + "# by hand\n")
        return write()

    with pytest.raises(FileChanged):
        edits.put_text(("menu",), "soup: 4", record=record)
    assert stored_file.read_text() == FILE + "# by hand\n"


def test_unrecorded_change_is_undone(stored_file):
    def record(write):
        assert write().text_at(("menu",)) == "soup: 4"
        raise OSError("the disk is full")

    with pytest.raises(OSError, match="disk is full"):
        edits.put_text(("menu",), "soup: 4", record=record)
    assert stored_file.read_text() == FILE


def test_undo_keeps_a_concurrent_external_edit(stored_file):
    def record(write):
        write()
        stored_file.write_text(FILE + "# by hand\n")
        raise OSError("the disk is full")

    with pytest.raises(OSError, match="disk is full"):
        edits.put_text(("menu",), "soup: 4", record=record)
    assert stored_file.read_text() == FILE + "# by hand\n"


def test_failed_undo_is_logged(stored_file, caplog):
    def record(write):
        write()
        stored_file.chmod(0o444)
        raise OSError("the disk is full")

    with pytest.raises(OSError, match="disk is full"):
        edits.put_text(("menu",), "soup: 4", record=record)
    assert "soup: 4" in stored_file.read_text()
    assert "could not undo an unrecorded change of coulisse.yaml" in caplog.text


def test_entries_can_be_added_and_removed(stored_file):
    edits.add_entry(("menu", "cake"), "5")
    assert stored_file.read_text() == FILE + "  cake: 5\n"
    with pytest.raises(EntryTaken, match="'cake' already exists under menu:"):
        edits.add_entry(("menu", "cake"), "6")
    edits.remove_entry(("menu", "cake"))
    assert stored_file.read_text() == FILE
    with pytest.raises(EntryUnknown, match="'cake' does not exist under menu:"):
        edits.remove_entry(("menu", "cake"))


def test_add_entry_creates_a_missing_section(stored_file):
    edits.put_text(("cooks",), "- name: bob")
    edits.remove_entry(("menu",))
    edits.add_entry(("menu", "tea"), "1")
    assert stored_file.read_text().endswith("  - name: bob\n\nmenu:\n  tea: 1\n")


def test_split_name_separates_the_name_field():
    text = "# hot\nname: tea # x\n\nsize: 2\n"
    assert file_editor.split_name(text, ("name",)) == ("tea", "# hot\n\nsize: 2\n")
    assert file_editor.split_name("kind: groq", ("name", "kind")) == ("groq", "{}")
    with pytest.raises(ConfigInvalid, match="'name' is missing in the entry"):
        file_editor.split_name("size: 2", ("name",))


def test_masked_secrets_are_kept_on_save(stored_file):
    shown = config_file.read_file()
    edits.write_text(shown.text)
    edits.write_data(shown.data)
    edits.put_text(("cooks",), shown.text_at(("cooks",)))
    edits.put_data(("cooks",), shown.data_at(("cooks",)))
    assert stored_file.read_text() == FILE
    typed = shown.text_at(("cooks",)).replace("the first", "still the first")
    edits.put_text(("cooks",), typed)
    assert stored_file.read_text() == FILE.replace("the first", "still the first")
    with pytest.raises(ConfigInvalid, match="this is a mask"):
        edits.put_text(("cooks",), typed.replace("name: ann", "name: eve"))


def test_unreadable_file_shows_the_last_valid_copy(stored_file):
    live.load_at_start()
    broken = FILE + "menu: {\n"
    stored_file.write_text(broken)
    shown = config_file.read_file()
    assert shown.is_broken
    assert shown.text == FILE.replace("ann-secret", "••••••••")
    assert "coulisse.yaml" in str(config_file.parse_error(shown))
    with pytest.raises(ConfigInvalid):
        edits.put_text(("menu",), "soup: 4")
    edits.write_text(shown.text, version=shown.version)
    assert stored_file.read_text() == FILE


def test_deleted_file_can_be_restored(stored_file):
    live.load_at_start()
    stored_file.unlink()
    shown = config_file.read_file()
    assert shown.is_missing
    assert shown.text == FILE.replace("ann-secret", "••••••••")
    assert "the file does not exist" in str(config_file.parse_error(shown))
    assert file_editor.check_text((), shown.text) == []
    with pytest.raises(ConfigInvalid, match="save the whole file"):
        edits.put_text(("menu",), "soup: 4")
    assert not edits.write_text(shown.text, version=shown.version).is_missing
    assert stored_file.read_text() == FILE


def test_recreated_file_is_not_overwritten(stored_file):
    def record(write):
        stored_file.write_text("# by hand\n")
        return write()

    live.load_at_start()
    stored_file.unlink()
    with pytest.raises(FileChanged):
        edits.write_text(FILE, record=record)
    assert stored_file.read_text() == "# by hand\n"


def test_unrecorded_restore_is_undone(stored_file):
    def record(write):
        write()
        raise OSError("the disk is full")

    live.load_at_start()
    stored_file.unlink()
    with pytest.raises(OSError, match="disk is full"):
        edits.write_text(FILE, record=record)
    assert not stored_file.exists()


def test_dangling_symlink_is_not_replaced(stored_file):
    live.load_at_start()
    stored_file.unlink()
    stored_file.symlink_to("elsewhere.yaml")
    with pytest.raises(ConfigInvalid, match="the file does not exist"):
        config_file.read_file()


@pytest.mark.parametrize("nothing", ["", " \n", "null\n", "~"])
def test_empty_section_is_removed(stored_file, nothing):
    stored_file.write_text(FILE + "vars: {a: b}\n")
    edits.put_text(("vars",), nothing)
    assert stored_file.read_text() == FILE


def test_empty_section_can_be_saved_unchanged(stored_file):
    text = FILE + "vars:\n  # none yet\n"
    stored_file.write_text(text)
    edits.put_text(("vars",), config_file.read_file().text_at(("vars",)))
    assert stored_file.read_text() == text
    edits.remove_entry(("vars",))
    assert (
        stored_file.read_text().rstrip().removesuffix("# none yet").rstrip() + "\n"
        == FILE
    )


def test_removed_section_can_be_saved_again(stored_file):
    stored_file.write_text(FILE + "vars: {a: b}\n")
    edits.put_data(("vars",), None)
    assert stored_file.read_text() == FILE
    edits.put_data(("vars",), None)
    assert stored_file.read_text() == FILE


def test_invalid_file_can_be_fixed(stored_file):
    live.load_at_start()
    stored_file.write_text(FILE.replace("soup: 3", "soup: lots"))
    assert not config_file.read_file().is_broken
    edits.put_text(("menu",), "soup: 3")
    assert stored_file.read_text() == FILE


def test_file_size_limit_applies_to_writes(stored_file):
    row = "# " + "x" * 98 + "\n"
    big = FILE + row * 600
    stored_file.write_text(big)
    edits.put_text(("menu",), "soup: 4")
    assert stored_file.read_text() == big.replace("soup: 3", "soup: 4")
    with pytest.raises(ConfigInvalid, match="1 MiB"):
        edits.write_text(FILE + row * (2**20 // len(row)))


def test_parallel_writes_are_all_kept(stored_file):
    threads = [
        threading.Thread(target=edits.add_entry, args=(("menu", f"dish{i}"), "1"))
        for i in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(loader.load_file(stored_file).get(MENU)) == 9


def test_writes_wait_for_the_lock_of_other_processes(stored_file):
    """Another process has the lock; this one writes after it has let go."""
    lock = stored_file.parent / ".coulisse" / atomic_file.LOCK_FILE
    script = (
        "import fcntl, os, sys\n"
        f"d = os.open({str(lock)!r}, os.O_RDWR)\n"
        "fcntl.flock(d, fcntl.LOCK_EX)\n"
        "print('locked', flush=True)\n"
        "sys.stdin.read()\n"
        f"open({str(stored_file)!r}, 'a').write('# by another\\n')\n"
    )
    with atomic_file.lock_writes():
        pass
    with subprocess.Popen(
        [sys.executable, "-c", script],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as other:
        assert other.stdout.readline() == "locked\n"
        thread = threading.Thread(target=edits.put_text, args=(("menu",), "soup: 4"))
        thread.start()
        assert stored_file.read_text() == FILE
        other.stdin.close()
        thread.join()
    assert stored_file.read_text().endswith("soup: 4\n# by another\n")
