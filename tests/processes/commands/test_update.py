"""`update` names the steps of each kind of installation, and runs none."""

import importlib.util
import sys
from pathlib import Path

from django.core.management import call_command

from core.version import VERSION
from processes.management.commands import update


def test_steps_are_in_order(settings, tmp_path: Path, capsys) -> None:
    settings.BASE_DIR = tmp_path
    settings.COULISSE_STATE_DIR = tmp_path / "my project/.coulisse"
    (tmp_path / "my project/.coulisse").mkdir(parents=True)
    (tmp_path / ".git").touch()
    call_command("update", "-c", "my team.yaml")
    assert capsys.readouterr().out.splitlines() == [
        f"coulisse {VERSION} in {tmp_path}; to update it:",
        "  coulisse stop -c 'my team.yaml'",
        f"  cp -r '{tmp_path}/my project/.coulisse' coulisse-backup-{VERSION}",
        f"  (cd {tmp_path} && git pull && make setup)",
        "  coulisse check -c 'my team.yaml'",
        "  coulisse start -c 'my team.yaml'",
    ]


def test_state_that_does_not_exist_is_not_copied(settings, tmp_path, capsys) -> None:
    settings.COULISSE_STATE_DIR = tmp_path / ".coulisse"
    call_command("update")
    assert "cp -r" not in capsys.readouterr().out


def test_wheel_is_updated_by_pip(tmp_path: Path) -> None:
    command = f"'{sys.executable}' -m pip install --upgrade WHEEL"
    assert update.find_step(tmp_path) == command


def test_wheel_is_updated_by_uv_without_pip(monkeypatch, tmp_path: Path) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    assert update.find_step(tmp_path) == (
        f"uv pip install --python '{sys.executable}' --upgrade WHEEL"
        "  # or, with uvx: uvx --from WHEEL coulisse"
    )


def test_copy_of_the_files_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "Makefile").touch()
    assert update.find_step(tmp_path).startswith(f"replace {tmp_path} by")
