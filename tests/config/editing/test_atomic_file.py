"""Atomic replacement of the file."""

import errno
import os
import stat

import pytest

from config.editing import atomic_file
from config.errors import FileChanged, FileUnwritable


@pytest.fixture
def target(tmp_path, settings):
    settings.COULISSE_STATE_DIR = tmp_path / ".coulisse"
    settings.COULISSE_STATE_DIR.mkdir()
    path = tmp_path / "coulisse.yaml"
    path.write_bytes(b"old")
    return path


def test_replaced_file_keeps_its_mode(target):
    target.chmod(0o640)
    before = target.stat()
    atomic_file.replace_file(target, b"new")
    after = target.stat()
    assert target.read_bytes() == b"new"
    assert stat.S_IMODE(after.st_mode) == 0o640
    assert (after.st_uid, after.st_gid) == (before.st_uid, before.st_gid)
    assert after.st_ino != before.st_ino
    assert sorted(p.name for p in target.parent.iterdir()) == [
        ".coulisse",
        "coulisse.yaml",
    ]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_replaced_file_keeps_its_owner(target):
    os.chown(target, 12345, 23456)
    atomic_file.replace_file(target, b"new")
    after = target.stat()
    assert (after.st_uid, after.st_gid) == (12345, 23456)


def test_replaced_symlink_stays_a_symlink(target, tmp_path):
    link = tmp_path / "elsewhere" / "link.yaml"
    link.parent.mkdir()
    link.symlink_to(target)
    atomic_file.replace_file(link, b"new")
    assert link.is_symlink()
    assert target.read_bytes() == b"new"


def test_read_only_file_is_refused(target):
    target.chmod(0o444)
    with pytest.raises(FileUnwritable, match="read-only; make it writable"):
        atomic_file.replace_file(target, b"new")
    assert target.read_bytes() == b"old"


@pytest.mark.parametrize("number", [errno.EACCES, errno.EROFS, errno.ENOSPC])
def test_os_errors_are_reported_and_change_nothing(target, monkeypatch, number):
    def refuse(*args, **kwargs):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr("tempfile.mkstemp", refuse)
    with pytest.raises(FileUnwritable, match=os.strerror(number)):
        atomic_file.replace_file(target, b"new")
    assert target.read_bytes() == b"old"


def test_bind_mounted_file_is_overwritten_in_place(target, monkeypatch):
    """What the kernel says of a file that is a mount: it is busy."""
    replace = os.replace

    def busy(source, to):
        if os.fspath(to) == str(target):
            raise OSError(errno.EBUSY, os.strerror(errno.EBUSY))
        replace(source, to)

    monkeypatch.setattr("os.replace", busy)
    before = target.stat().st_ino
    atomic_file.replace_file(target, b"new content")
    assert target.read_bytes() == b"new content"
    assert target.stat().st_ino == before
    copy = target.parent / ".coulisse" / atomic_file.BACKUP_FILE
    assert copy.read_bytes() == b"old"
    assert stat.S_IMODE(copy.stat().st_mode) == 0o600
    assert list(target.parent.glob(".coulisse.yaml.*")) == []


def test_failed_overwrite_is_restored_and_reported(target, monkeypatch):
    def busy(source, to):
        raise OSError(errno.EBUSY, os.strerror(errno.EBUSY))

    write, full = atomic_file._write_all, [b"new"]

    def fail_once(descriptor, content):
        if content in full:
            write(descriptor, content[:1])
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        write(descriptor, content)

    monkeypatch.setattr("os.replace", busy)
    monkeypatch.setattr(atomic_file, "_write_all", fail_once)
    with pytest.raises(FileUnwritable, match="No space left"):
        atomic_file.replace_file(target, b"new")
    assert target.read_bytes() == b"old"


def test_mounted_file_in_read_only_directory_is_detected(target, tmp_path, monkeypatch):
    mounts = tmp_path / "mountinfo"
    mounts.write_text(f"36 35 98:0 / {target} rw,noatime - ext4 /dev/sda rw\n")
    monkeypatch.setattr(atomic_file, "MOUNTS", mounts)

    def refuse(*args, **kwargs):
        raise OSError(errno.EACCES, os.strerror(errno.EACCES))

    monkeypatch.setattr("tempfile.mkstemp", refuse)
    atomic_file.replace_file(target, b"new")
    assert target.read_bytes() == b"new"


@pytest.mark.parametrize("is_mounted", [False, True])
def test_late_external_edit_is_not_lost(target, monkeypatch, is_mounted):
    fsync = os.fsync

    def edit(descriptor):
        fsync(descriptor)
        target.write_bytes(b"by hand")

    def busy(source, to):
        raise OSError(errno.EBUSY, os.strerror(errno.EBUSY))

    if is_mounted:
        monkeypatch.setattr(
            atomic_file, "_replace", lambda target, *_: busy(None, target)
        )
    monkeypatch.setattr("os.fsync", edit)
    with pytest.raises(FileChanged):
        atomic_file.replace_file(target, b"new", before=b"old")
    assert target.read_bytes() == b"by hand"
    assert list(target.parent.glob(".coulisse.yaml.*")) == []


def test_nothing_is_written_without_a_lock(target, settings):
    # Stands for a read-only or full file system.
    settings.COULISSE_STATE_DIR = target / ".coulisse"
    with (
        pytest.raises(
            FileUnwritable, match=r"cannot lock .*coulisse\.lock \(Not a dir"
        ),
        atomic_file.lock_writes(),
    ):
        atomic_file.replace_file(target, b"new")
    assert target.read_bytes() == b"old"
