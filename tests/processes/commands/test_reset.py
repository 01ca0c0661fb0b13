"""`reset` deletes the SQLite database, unless a server uses it."""

from io import StringIO
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command

from processes.supervision.pidfile import PidFile
from processes.supervision.state_directory import StateDir


class Terminal(StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def state(tmp_path: Path, settings) -> StateDir:
    settings.COULISSE_STATE_DIR = tmp_path / ".coulisse"
    settings.COULISSE_FILES_DIR = settings.COULISSE_STATE_DIR / "files"
    state = StateDir(settings.COULISSE_STATE_DIR)
    state.prepare()
    return state


@pytest.fixture
def database(state: StateDir, settings, monkeypatch) -> list[Path]:
    base = state.root / "coulisse-memory.db"
    monkeypatch.setitem(settings.DATABASES["default"], "NAME", base)
    monkeypatch.setitem(
        settings.DATABASES["default"], "ENGINE", "django.db.backends.sqlite3"
    )
    files = [base, Path(f"{base}-wal"), Path(f"{base}-shm")]
    for path in files:
        path.write_text("")
    return files


def test_reset_deletes_database_and_queue(
    state: StateDir, database: list[Path]
) -> None:
    state.log.write_text("a line")
    state.broker.mkdir(parents=True)
    (state.broker / "valkey.log").touch()
    state.socket.touch()
    (state.root / "files" / "folder").mkdir(parents=True)
    output = StringIO()
    call_command("reset", yes=True, stdout=output)
    assert all(str(path) in output.getvalue() for path in database)
    assert list(state.root.iterdir()) == [state.log]
    assert state.log.read_text().startswith("a line")
    assert "its audit were deleted by command line: " in state.log.read_text()
    call_command("reset", yes=True, stdout=output)
    assert output.getvalue().endswith("nothing to delete\n")


def test_reset_without_terminal_requires_yes_option(database: list[Path]) -> None:
    with pytest.raises(CommandError, match="pass -y"):
        call_command("reset", stdout=StringIO())
    assert all(path.exists() for path in database)


@pytest.mark.parametrize(("answer", "is_deleted"), [("yes", True), ("", False)])
def test_reset_asks_for_confirmation(
    database: list[Path], monkeypatch, answer, is_deleted
) -> None:
    monkeypatch.setattr("sys.stdin", Terminal())
    monkeypatch.setattr("builtins.input", lambda prompt: answer)
    call_command("reset", stdout=StringIO())
    assert any(path.exists() for path in database) is not is_deleted


def test_reset_refuses_while_a_server_runs(
    state: StateDir, database: list[Path]
) -> None:
    lock = PidFile(state.pid)
    lock.acquire()
    try:
        with pytest.raises(CommandError, match="the server is running"):
            call_command("reset", yes=True, stdout=StringIO())
    finally:
        lock.release()
    assert all(path.exists() for path in database)


def test_reset_refuses_postgresql(settings, monkeypatch) -> None:
    monkeypatch.setitem(
        settings.DATABASES["default"], "ENGINE", "django.db.backends.postgresql"
    )
    with pytest.raises(CommandError, match="dropdb"):
        call_command("reset", yes=True, stdout=StringIO())
