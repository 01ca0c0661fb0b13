"""Settings that only the file may set."""

import pytest

from config import live
from config.errors import (
    FileOnlySetting,
)
from config.loading import last_valid_copy, loader
from config.sections import Section
from tests.config.conftest import KITCHEN, MENU
from tests.config.editing import edits
from tests.config.editing.conftest import FILE

BAND = Section(
    key="menu",
    shape=dict[str, int],
    default=dict,
    noun="dish",
    file_only=lambda dishes: {name: n for name, n in dishes.items() if n > 99},
)


def may_all(config):
    return config.get(KITCHEN).open is False


@pytest.fixture
def file_only_menu(stored_file, settings):
    here = "tests.config.editing.test_file_only_settings"
    settings.COULISSE_SECTIONS = [
        f"{here}.BAND" if path.endswith(".MENU") else path
        for path in settings.COULISSE_SECTIONS
    ]
    settings.COULISSE_MAY_CHANGE_COMMANDS = f"{here}.may_all"
    stored_file.write_text(FILE + "  gun: 100\nvars: {n: '7'}\n")
    return stored_file


@pytest.mark.parametrize(
    "change",
    [
        lambda: edits.put_text(("menu",), "soup: 3\ngun: 101"),
        lambda: edits.put_text(("menu",), "soup: 3"),
        lambda: edits.put_data(("menu",), {"soup": 300, "gun": 100}),
        lambda: edits.add_entry(("menu", "bomb"), "100"),
        lambda: edits.add_entry(("menu", "bomb"), "10${vars.n}"),
        lambda: edits.remove_entry(("menu", "gun")),
        lambda: edits.write_text(FILE),
    ],
)
def test_file_only_setting_cannot_be_changed(file_only_menu, change):
    before = file_only_menu.read_text()
    with pytest.raises(
        FileOnlySetting, match=r"dish '\w+'.*studio: \{allow_commands: true\}"
    ):
        change()
    assert file_only_menu.read_text() == before


def test_file_only_setting_cannot_be_changed_by_snippet(file_only_menu):
    file_only_menu.write_text(FILE + "  bomb: 9${vars.n}\nvars: {n: '7'}\n")
    with pytest.raises(FileOnlySetting, match="'bomb'"):
        edits.put_text(("vars",), "n: '97'")


def test_other_settings_can_be_changed(file_only_menu):
    edits.put_text(("menu",), "soup: 4\ngun: 100\n")
    assert "soup: 4" in file_only_menu.read_text()


def test_file_only_setting_can_be_unlocked_in_the_file(file_only_menu):
    file_only_menu.write_text(file_only_menu.read_text() + "kitchen: {open: false}\n")
    edits.put_text(("menu", "gun"), "200")
    assert loader.load_file(file_only_menu).get(MENU)["gun"] == 200


def test_edit_cannot_unlock_its_own_setting(file_only_menu):
    with pytest.raises(FileOnlySetting):
        edits.write_text(FILE + "  gun: 101\nvars: {n: '7'}\nkitchen: {open: false}\n")


def test_file_only_check_of_invalid_file_uses_last_valid(file_only_menu):
    live.load_at_start()
    file_only_menu.write_text(file_only_menu.read_text() + "oven: 1\n")
    with pytest.raises(FileOnlySetting):
        edits.write_text(FILE + "  gun: 101\nvars: {n: '7'}\n")
    assert last_valid_copy.read_copy() is not None
