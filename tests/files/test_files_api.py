"""`/v1/files` with OpenAI's client: upload, list, show, download, delete."""

import json
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx2
import openai
import pytest

from config import live
from database import retention
from files.config import STORAGE
from files.models import File, UnusedContent
from files.storage import content
from files.tasks import delete_unused
from gateway.asgi.admission import FORM_BYTES
from tests.conftest import CONFIG
from tests.files.conftest import stored
from tests.files.samples import ELF, PNG, SVG, WAV, pdf
from tests.gateway.calls import until

pytestmark = pytest.mark.database

SCHEMA_FIELDS = {
    "id",
    "object",
    "bytes",
    "created_at",
    "filename",
    "purpose",
    "status",
    "content_type",
}


def test_upload_and_download(mine, folder):
    data = pdf("Hello")
    file = mine.files.create(file=("cv.pdf", data), purpose="user_data")
    assert file.id.startswith("file-")
    assert (file.object, file.bytes, file.filename) == ("file", len(data), "cv.pdf")
    assert (file.purpose, file.status) == ("user_data", "processed")
    assert abs(file.created_at - time.time()) < 60
    assert file.to_dict().keys() == SCHEMA_FIELDS
    assert file.to_dict()["content_type"] == "application/pdf"
    assert mine.files.retrieve(file.id) == file
    response = mine.files.with_raw_response.content(file.id)
    assert response.content == data
    assert response.headers["content-disposition"] == 'attachment; filename="cv.pdf"'
    assert response.headers["x-content-type-options"] == "nosniff"
    path = folder / file.id.removeprefix("file-")
    assert path.stat().st_mode & 0o777 == 0o600
    assert not list((folder / ".uploads").iterdir())


def test_large_upload_is_not_held_in_memory(mine):
    # Beyond the limit of bodies that are sent in chunks.
    data = b"0123456789abcdef" * 2**20
    file = mine.files.create(file=("large.txt", data), purpose="user_data")
    assert file.bytes == len(data) == 2**24
    assert mine.files.content(file.id).content == data


def test_list_pages_in_both_orders(mine):
    ids = [
        mine.files.create(file=(f"{n}.txt", f"{n}".encode()), purpose=purpose).id
        for n, purpose in enumerate(["user_data", "vision", "user_data"])
    ]
    assert [file.id for file in mine.files.list(limit=2)] == ids[::-1]
    assert [file.id for file in mine.files.list(limit=1, order="asc")] == ids
    assert [file.id for file in mine.files.list(purpose="vision")] == [ids[1]]
    page = mine.files.list(limit=2)
    assert page.has_more
    assert [file.id for file in page.data] == ids[:0:-1]
    with pytest.raises(openai.BadRequestError) as refused:
        mine.files.list(after="file-unknown")
    assert refused.value.param == "after"


def test_delete_removes_row_and_bytes(mine, folder):
    file = mine.files.create(file=("a.txt", b"delete me"), purpose="user_data")
    name = file.id.removeprefix("file-")
    assert name in stored(folder)
    assert mine.files.delete(file.id).to_dict() == {
        "id": file.id,
        "object": "file",
        "deleted": True,
    }
    until(lambda: name not in stored(folder))
    for call in (mine.files.retrieve, mine.files.content, mine.files.delete):
        with pytest.raises(openai.NotFoundError) as refused:
            call(file.id)
        assert refused.value.body["message"] == f"No such File object: {file.id}"


def test_other_users_see_nothing(mine, as_user):
    file = mine.files.create(file=("a.txt", b"mine"), purpose="user_data")
    other = as_user("somebody-else")
    messages = []
    for file_id in (file.id, f"file-{'0' * 32}"):
        for call in (other.files.retrieve, other.files.content, other.files.delete):
            with pytest.raises(openai.NotFoundError) as refused:
                call(file_id)
            messages.append(refused.value.body["message"].replace(file_id, ""))
    assert len(set(messages)) == 1
    assert file.id not in [each.id for each in other.files.list()]
    assert mine.files.retrieve(file.id) == file


def test_same_content_is_the_same_file(mine, as_user, folder):
    first = mine.files.create(file=("a.txt", b"the same"), purpose="user_data")
    before = stored(folder)
    second = mine.files.create(file=("b.txt", b"the same"), purpose="assistants")
    assert second.id == first.id
    assert (second.filename, second.purpose) == ("b.txt", "assistants")
    assert stored(folder) == before
    other = as_user("somebody-else").files.create(
        file=("a.txt", b"the same"), purpose="user_data"
    )
    assert other.id != first.id


def test_lost_content_is_reported_and_stored_again(mine, folder):
    file = mine.files.create(file=("a.txt", b"to be lost"), purpose="user_data")
    path = folder / file.id.removeprefix("file-")
    path.write_bytes(b"to be")
    with pytest.raises(openai.InternalServerError) as refused:
        mine.files.content(file.id)
    assert refused.value.code == "file_content_missing"
    path.unlink()
    again = mine.files.create(file=("a.txt", b"to be lost"), purpose="user_data")
    assert again.id == file.id
    assert mine.files.content(file.id).content == b"to be lost"


def test_file_expires(mine, folder):
    file = mine.files.create(
        file=("a.txt", b"for an hour"),
        purpose="user_data",
        expires_after={"anchor": "created_at", "seconds": 3600},
    )
    assert file.expires_at == pytest.approx(file.created_at + 3600, abs=1)
    name = file.id.removeprefix("file-")
    File.objects.filter(pk=name).update(expires_at=datetime.now(UTC))
    with pytest.raises(openai.NotFoundError):
        mine.files.retrieve(file.id)
    assert not list(mine.files.list())
    retention.delete_expired(File, datetime.now(UTC))
    assert not File.objects.filter(pk=name).exists()
    until(lambda: name not in stored(folder))


def test_second_upload_extends_the_lifetime(mine):
    hour = {"anchor": "created_at", "seconds": 3600}
    day = {"anchor": "created_at", "seconds": 86400}
    expires = [
        mine.files.create(
            file=("a.txt", b"longer"), purpose="user_data", expires_after=lifetime
        ).expires_at
        for lifetime in (day, hour, openai.omit)
    ]
    assert expires[0] == expires[1]
    assert expires[2] is None


@pytest.mark.parametrize(
    ("name", "data", "content_type", "served"),
    [
        ("a.png", PNG, "image/png", "image/png"),
        ("a.wav", WAV, "audio/wav", "audio/wav"),
        ("a.json", b"{}", "application/json", "application/json"),
        ("notes", b"plain words", "text/plain", "text/plain"),
        ("a.svg", SVG, "image/svg+xml", "application/octet-stream"),
        ("a.txt", SVG, "image/svg+xml", "application/octet-stream"),
        ("a.txt", b"<!DOCTYPE html>x", "text/html", "application/octet-stream"),
        ("a.bin", bytes(range(32)), *["application/octet-stream"] * 2),
        ("mz.txt", b"MZ is no program", "text/plain", "text/plain"),
        ("utf16.txt", "häuser".encode("utf-16"), "text/plain", "text/plain"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_type_is_found_in_the_content(mine, name, data, content_type, served):
    file = mine.files.create(file=(name, data, "text/html"), purpose="user_data")
    assert file.to_dict()["content_type"] == content_type
    response = mine.files.with_raw_response.content(file.id)
    assert response.headers["content-type"].partition(";")[0] == served
    assert response.headers["content-disposition"].startswith("attachment")
    assert "sandbox" in response.headers["content-security-policy"]


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("../../etc/passwd", "passwd"),
        ("C:\\secrets\\a.txt", "a.txt"),
        ("a\u202etxt.exe\u0007.md", "atxt.exe.md"),
        ("..", "upload"),
        ('say "hi".txt', 'say "hi".txt'),
        ("Lebenslauf - Zoë.txt", "Lebenslauf - Zoë.txt"),
        ("x" * 300 + ".txt", "x" * 255),
    ],
    ids=["parents", "windows", "invisible", "dots", "quotes", "unicode", "long"],
)
def test_filename_is_only_shown(mine, folder, name, shown):
    file = mine.files.create(file=(name, b"named"), purpose="user_data")
    assert file.filename == shown
    assert file.id.removeprefix("file-") in stored(folder)
    response = mine.files.with_raw_response.content(file.id)
    assert response.content == b"named"


# What is refused.


def post(server, user, **request):
    return httpx2.post(
        f"{server}/v1/files", headers={"X-Coulisse-User": user}, **request
    )


@pytest.mark.parametrize(
    ("form", "status", "code", "param"),
    [
        ({"data": {"purpose": "user_data"}, "files": {"f": b"x"}}, 400, None, "file"),
        ({"files": {"file": ("a.txt", b"x")}}, 400, None, "purpose"),
        ({"data": {"purpose": "x"}, "files": {"file": b"x"}}, 400, None, "purpose"),
        (
            {"data": {"purpose": "user_data"}, "files": {"file": b""}},
            400,
            "empty_file",
            "file",
        ),
        (
            {"data": {"purpose": "user_data", "more": "1"}, "files": {"file": b"x"}},
            400,
            None,
            "more",
        ),
        (
            {"data": {"purpose": "user_data"}, "files": {"file": ("a.exe", ELF)}},
            415,
            "unsupported_file_type",
            "file",
        ),
        (
            {"data": {"purpose": "user_data"}, "files": {"file": ("a.png", b"text")}},
            400,
            "file_type_mismatch",
            "file",
        ),
        ({"json": {"purpose": "user_data"}}, 400, "invalid_form", None),
        ({"content": b""}, 400, "invalid_form", None),
    ],
    ids=[
        "no file",
        "no purpose",
        "purpose",
        "empty",
        "unknown field",
        "program",
        "mismatch",
        "json",
        "nothing",
    ],
)
def test_invalid_upload_is_refused(server, user, folder, form, status, code, param):
    before = stored(folder)
    response = post(server, user, **form)
    error = response.json()["error"]
    assert (response.status_code, error["param"]) == (status, param)
    assert error["type"] == "invalid_request_error"
    if code:
        assert error["code"] == code
    assert stored(folder) == before
    assert not list((folder / ".uploads").iterdir())


HEAD = b'--b\r\nContent-Disposition: form-data; name="'


@pytest.mark.parametrize(
    "body",
    [
        b"garbage",
        b"--b--",
        HEAD + b'file"; filename="a"\r\n\r\nhello',
        HEAD + b'purpose"\r\n\r\n' + b"x" * 5000 + b"\r\n--b--\r\n",
        b"".join(HEAD + b'f%d"\r\n\r\nx\r\n' % n for n in range(20)) + b"--b--\r\n",
        HEAD + b'file"\r\n\r\n1\r\n' + HEAD + b'file"\r\n\r\n2\r\n--b--\r\n',
        b"--b\r\n" + b"X: y\r\n" * 1000 + b"\r\n\r\n--b--\r\n",
    ],
    ids=["garbage", "end", "open", "long field", "many", "twice", "headers"],
)
def test_malformed_form_is_refused(server, user, folder, body):
    response = httpx2.post(
        f"{server}/v1/files",
        content=body,
        headers={
            "X-Coulisse-User": user,
            "Content-Type": "multipart/form-data; boundary=b",
        },
    )
    assert response.status_code == 400
    assert not list((folder / ".uploads").iterdir())


def with_storage(configure, **settings) -> None:
    configure(f"{CONFIG}\nstorage: {json.dumps(settings)}\n")


def test_size_limit_applies_before_the_body_is_read(configure, mine, server, user):
    with_storage(configure, max_file_bytes=1000)
    with pytest.raises(openai.APIStatusError) as refused:
        mine.files.create(file=("a.txt", b"x" * 1001), purpose="user_data")
    assert refused.value.status_code == 413
    assert refused.value.code == "file_too_large"
    response = httpx2.post(
        f"{server}/v1/files",
        headers={"X-Coulisse-User": user},
        content=b"x" * (1001 + FORM_BYTES),
    )
    assert response.status_code == 413
    assert response.json()["error"]["code"] == "body_too_large"
    assert mine.files.create(file=("a.txt", b"x" * 1000), purpose="user_data")


def test_other_requests_keep_their_limit(server):
    response = httpx2.post(f"{server}/v1/chat/completions", content=b"x" * (3 * 2**20))
    assert response.status_code == 413


def test_quota_deletes_the_oldest_files(configure, mine, as_user, user, folder):
    with_storage(configure, max_user_bytes=1000)
    other = as_user(f"{user}-other")
    kept = other.files.create(file=("o.txt", b"o" * 900), purpose="user_data")
    first, second = (
        mine.files.create(file=("a.txt", letter * 400), purpose="user_data")
        for letter in (b"a", b"b")
    )
    mine.files.create(file=("a.txt", b"a" * 400), purpose="user_data")
    third = mine.files.create(file=("c.txt", b"c" * 400), purpose="user_data")
    assert {file.id for file in mine.files.list()} == {first.id, third.id}
    until(lambda: second.id.removeprefix("file-") not in stored(folder))
    assert other.files.retrieve(kept.id)
    with pytest.raises(openai.APIStatusError) as refused:
        mine.files.create(file=("d.txt", b"d" * 1001), purpose="user_data")
    assert refused.value.status_code == 413


def test_types_can_be_limited(configure, mine):
    with_storage(configure, allowed_types=["application/pdf", "image/*"])
    assert mine.files.create(file=("a.png", PNG), purpose="vision")
    with pytest.raises(openai.APIStatusError) as refused:
        mine.files.create(file=("a.txt", b"text"), purpose="user_data")
    assert refused.value.status_code == 415
    assert "text/plain" in refused.value.message


def test_uploads_count_as_requests(configure, mine):
    configure(CONFIG + "limits:\n  - per: principal\n    requests_per_minute: 2\n")
    mine.files.create(file=("a.txt", b"1"), purpose="user_data")
    mine.files.list()
    with pytest.raises(openai.RateLimitError):
        mine.files.create(file=("a.txt", b"2"), purpose="user_data")


# Crashes and concurrent requests.


def test_bytes_without_a_file_are_swept(database, folder, server):
    old = datetime.now(UTC) - timedelta(hours=2)
    pks = [content_of(folder, age) for age in (old, datetime.now(UTC))]
    delete_unused()
    assert {pk.hex for pk in pks} & stored(folder) == {pks[1].hex}
    assert not UnusedContent.objects.filter(pk=pks[0]).exists()
    assert UnusedContent.objects.filter(pk=pks[1]).exists()


def content_of(folder: Path, since: datetime):
    from core.ids import new_id

    pk = new_id()
    (folder / pk.hex).write_bytes(b"orphan")
    UnusedContent.objects.create(pk=pk, since=since)
    return pk


def test_failing_storage_stores_no_row(mine, user_id, monkeypatch, folder):
    def fail(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(content.backends.FolderStorage, "save", fail)
    with pytest.raises(openai.InternalServerError) as refused:
        mine.files.create(file=("a.txt", b"no space"), purpose="user_data")
    assert (refused.value.status_code, refused.value.code) == (
        503,
        "storage_unavailable",
    )
    assert "space" not in refused.value.message
    assert not File.objects.filter(user_id=user_id).exists()


def test_storage_defaults(server):
    config = live.current().get(STORAGE)
    assert (config.backend, config.largest_file) == ("fs", 2**29)


def test_export_and_erasure_cover_files(server, mine, user, user_id, folder):
    file = mine.files.create(file=("a.txt", b"erase me"), purpose="user_data")
    headers = {"X-Coulisse-User": user}
    url = f"{server}/v1/users/me"
    exported = httpx2.get(f"{url}/export", headers=headers).json()
    (row,) = exported["files"]
    assert (row["id"], row["filename"], row["bytes"]) == (file.id, "a.txt", 8)
    asked = httpx2.delete(url, headers=headers).json()
    assert asked["would_delete"]["files"] == 1
    params = {"confirmation": asked["confirmation"]}
    erased = httpx2.delete(url, headers=headers, params=params).json()
    assert erased["deleted"]["files"] == 1
    assert not File.objects.filter(user_id=user_id).exists()
    until(lambda: file.id.removeprefix("file-") not in stored(folder))


def test_concurrent_uploads_of_the_same_content_are_one_file(mine):
    with ThreadPoolExecutor(8) as pool:
        uploads = [
            pool.submit(mine.files.create, file=("a.txt", b"race"), purpose="user_data")
            for _ in range(8)
        ]
    assert len({upload.result().id for upload in uploads}) == 1


def test_concurrent_uploads_stay_within_the_quota(configure, mine):
    with_storage(configure, max_user_bytes=1000)
    with ThreadPoolExecutor(6) as pool:
        for number in range(6):
            data = str(number).encode() * 400
            pool.submit(mine.files.create, file=("a.txt", data), purpose="user_data")
    assert sum(file.bytes for file in mine.files.list()) <= 1000


def test_very_long_filename_is_named_as_the_reason(server, user):
    files = {"file": ("a" * 5000 + ".txt", b"x")}
    response = post(server, user, data={"purpose": "user_data"}, files=files)
    assert response.status_code == 400
    message = response.json()["error"]["message"]
    assert "header size exceeded" in message
    assert "short names" in message
