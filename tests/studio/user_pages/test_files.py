"""`/admin/files`: the files of all users."""

import uuid
from datetime import UTC, datetime

import httpx2
import pytest

from access.models import AuditEntry
from files.models import File

pytestmark = pytest.mark.database


@pytest.fixture
def file(server, user) -> dict:
    response = httpx2.post(
        f"{server}/v1/files",
        headers={"X-Coulisse-User": user},
        data={"purpose": "user_data"},
        files={"file": ("<b>cv</b>.txt", user.encode())},
    )
    return response.json()


def row_of(script, file_id) -> dict:
    (row,) = script.get(f"/admin/files?q={file_id}").json()["data"]
    return row


def test_list_shows_files(script, browser, user, file):
    row = row_of(script, file["id"])
    assert (row["file_id"], row["filename"]) == (file["id"], "b>.txt")
    assert (row["content_type"], row["size"]) == ("text/plain", len(user))
    assert "text" not in row
    found = script.get("/admin/files", params={"user": user}).json()["data"]
    assert [each["file_id"] for each in found] == [file["id"]]
    page = browser.get(f"/admin/files?user={user}").text
    assert "b&gt;.txt" in page
    assert "text/plain" in page
    assert browser.get(f"/admin/files/{row['id']}").status_code == 200


def test_operator_deletes_a_file(script, file):
    row = row_of(script, file["id"])
    response = script.delete(f"/admin/files/{row['id']}")
    assert response.json() == {"id": row["id"], "deleted": True}
    assert not File.objects.filter(pk=row["id"]).exists()
    entry = AuditEntry.objects.get(action="file.delete", target=file["id"])
    assert entry.details == {"type": "text/plain", "bytes": file["bytes"]}
    assert script.delete(f"/admin/files/{row['id']}").status_code == 404


def test_viewer_deletes_no_file(viewer):
    row = File.objects.create(
        user_id=uuid.uuid4(),
        filename="a.txt",
        purpose="user_data",
        content_type="text/plain",
        size=1,
        sha256="0" * 64,
        created_at=datetime.now(UTC),
    )
    assert viewer.get(f"/admin/files/{row.pk}").status_code == 200
    assert viewer.delete(f"/admin/files/{row.pk}").status_code == 403
    assert File.objects.filter(pk=row.pk).exists()
