"""`import coulisse --files-of USER`: uploaded files of the Rust version."""

import uuid

import pytest

from files import file_store
from files.models import File, UnusedContent
from files.storage import content
from files.types import parse_file_id

pytestmark = pytest.mark.database


@pytest.fixture
def text():
    """The content of a file that no other test has."""
    return f"text {uuid.uuid4()}".encode()


def test_files_keep_their_ids(rust, run_import, uuid_user, text):
    number = rust.file("../notes.md", text, purpose="diary")
    report = run_import("--files-of", str(uuid_user))
    assert report["counts"]["files"]["written"] == 1
    key = parse_file_id(number)
    file = file_store.find_file(uuid_user, key)
    assert (file.filename, file.purpose) == ("notes.md", "user_data")
    assert (file.content_type, file.size) == ("text/markdown", len(text))
    with content.open_content(file) as stored:
        assert stored.read() == text
    assert not UnusedContent.objects.filter(pk=key).exists()
    report = run_import("--files-of", str(uuid_user))
    assert report["counts"]["files"]["existing"] == 1


def test_dry_run_copies_nothing(rust, run_import, uuid_user, text):
    key = parse_file_id(rust.file("notes.md", text))
    report = run_import("--files-of", str(uuid_user), "--dry-run")
    assert report["counts"]["files"]["written"] == 1
    assert not File.objects.filter(pk=key).exists()
    assert not content.exists(key)


def test_files_without_a_named_owner_are_reported(rust, run_import, text):
    rust.file("notes.md", text)
    assert run_import()["no_counterpart"] == {
        "1 files": "they have no owner: name one with --files-of USER"
    }


def test_damaged_files_are_skipped(rust, run_import, uuid_user, text):
    rust.file("gone.md", text + b"1", storage_key=str(uuid.uuid4()))
    rust.file("other.md", text + b"2", storage_key="../coulisse-memory.db")
    rust.file("torn.md", text + b"3", sha256="0" * 64)
    rust.file("program.bin", b"\x7fELF" + text)
    rust.file("first.md", text)
    rust.file("second.md", text)
    report = run_import("--files-of", str(uuid_user))
    assert [each.filename for each in File.objects.filter(user_id=uuid_user)] == [
        "first.md"
    ]
    reasons = [each["reason"] for each in report["skipped"]]
    assert reasons[0].startswith("its content is not in ")
    assert reasons[1:4] == [
        "'storage_key' is not a UUID",
        "its content differs from its SHA-256",
        "files of type application/x-executable are not accepted",
    ]
    assert reasons[4].startswith("the user has the same content as file-")
