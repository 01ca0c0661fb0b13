"""Images and documents of Anthropic's messages whose source is an uploaded file."""

import base64

import pytest

from tests.files.samples import PNG
from tests.gateway.anthropic.shapes import body, create, post

pytestmark = pytest.mark.database


@pytest.mark.parametrize("agent", ["assistant", "claude"])
def test_files_by_id_reach_the_model(server, mine, fake, user, agent):
    png, text = (
        mine.files.create(file=file, purpose="user_data").id
        for file in (("a.png", PNG), ("a.txt", b"Ham and eggs"))
    )
    content = [
        {"type": "image", "source": {"type": "file", "file_id": png}},
        {
            "type": "document",
            "source": {"type": "file", "file_id": text},
            "title": "Breakfast",
        },
        {"type": "text", "text": "What is this?"},
    ]
    create(server, body(user, {"role": "user", "content": content}, model=agent))
    image, *texts = fake.bodies[-1]["messages"][-1]["content"]
    assert image["type"] == {"assistant": "image_url", "claude": "image"}[agent]
    assert base64.b64encode(PNG).decode() in str(image)
    title, file, question = (part["text"] for part in texts)
    assert (title, question) == ("Breakfast", "What is this?")
    assert "Ham and eggs" in file


def test_unknown_files_are_refused(server, mine, user):
    for source, message in (
        ({"type": "file", "file_id": "file-unknown"}, "No such File object"),
        ({"type": "file"}, "needs 'file_id'"),
    ):
        block = {"type": "document", "source": source}
        answer = post(server, body(user, {"role": "user", "content": [block]}))
        assert message in answer.json()["error"]["message"]
        assert answer.status_code in (400, 404)
