"""`update` names the steps of each kind of installation, and runs none."""

import importlib.metadata
import sys
from pathlib import Path

import pytest
from django.core.management import call_command

from core.version import VERSION
from processes.management.commands import update


def test_steps_are_in_order(settings, tmp_path: Path, capsys) -> None:
    settings.BASE_DIR = tmp_path
    settings.COULISSE_STATE_DIR = tmp_path / "my project/.coulisse"
    (tmp_path / ".git").touch()
    call_command("update")
    assert capsys.readouterr().out.splitlines() == [
        f"coulisse {VERSION} in {tmp_path}; to update it:",
        "  coulisse stop",
        f"  cp -r '{tmp_path}/my project/.coulisse' coulisse-backup",
        f"  cd '{tmp_path}' && git pull && make setup",
        "  coulisse check",
        "  coulisse start",
    ]


@pytest.mark.parametrize(
    ("installer", "command"),
    [
        ("pip\n", f"'{sys.executable}' -m pip install --upgrade WHEEL"),
        (
            "uv",
            f"uv pip install -U --python '{sys.executable}' WHEEL"
            "  # or, with uvx: uvx --from WHEEL coulisse",
        ),
        (None, f"'{sys.executable}' -m pip install --upgrade WHEEL"),
    ],
)
def test_wheel_is_updated_by_its_installer(
    installer: str | None, command: str, monkeypatch, tmp_path: Path
) -> None:
    class Distribution:
        def read_text(self, name: str) -> str | None:
            assert name == "INSTALLER"
            return installer

    monkeypatch.setattr(importlib.metadata, "distribution", lambda _: Distribution())
    assert update.find_step(tmp_path) == command


def test_copy_of_the_files_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "Makefile").touch()
    assert update.find_step(tmp_path).startswith(f"replace {tmp_path} by")
