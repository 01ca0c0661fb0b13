"""The state directory, accessible to its owner only."""

from pathlib import Path

import pytest

from processes.errors import StateUnwritable
from processes.supervision.state_directory import StateDir


@pytest.mark.parametrize("mode", [None, 0o755, 0o700])
def test_state_directory_is_private_to_its_owner(
    tmp_path: Path, mode: int | None
) -> None:
    state = StateDir(tmp_path / ".coulisse")
    if mode is not None:
        state.root.mkdir()
        state.root.chmod(mode)
    state.prepare()
    assert state.root.stat().st_mode & 0o777 == 0o700


def test_state_directory_of_others_is_not_changed(tmp_path: Path, monkeypatch) -> None:
    state = StateDir(tmp_path)
    state.root.chmod(0o755)
    monkeypatch.setattr("os.getuid", lambda: -1)
    state.prepare()
    assert state.root.stat().st_mode & 0o777 == 0o755


def test_unwritable_state_directory_is_named(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr("os.access", lambda path, mode: False)
    with pytest.raises(StateUnwritable, match=f"{tmp_path}: .*COULISSE_STATE_DIR"):
        StateDir(tmp_path).prepare()
