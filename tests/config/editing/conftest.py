"""The file that the tests edit, and sections with secrets."""

from pathlib import Path

import pytest

FILE = """\
# The house.
cooks:
  - name: ann # the first
    api_key: ann-secret
    dishes: [soup]
  - name: bob
menu: # of the day
  soup: 3
"""


@pytest.fixture
def stored_file(file: Path, settings) -> Path:
    settings.COULISSE_STATE_DIR = file.parent / ".coulisse"
    settings.COULISSE_STATE_DIR.mkdir()
    file.write_text(FILE)
    return file


@pytest.fixture
def vault_sections(_stand_ins, settings) -> None:
    here = "tests.config.editing.vault_sections"
    settings.COULISSE_SECTIONS = [
        f"{here}.VAULTS",
        f"{here}.LOOSE",
        "config.config.VARS",
    ]
