"""File parts by id in chat and in responses."""

import base64
import json
import uuid

import openai
import pytest

from core.messages import Message
from core.token_estimates import MAX_FILE_TEXT_TOKENS, estimate_message
from files.models import File
from files.parts import texts
from memory.models import StoredMessage
from memory.transcript import digests
from tests.conftest import CONFIG
from tests.files.samples import PNG, WAV, pdf

pytestmark = pytest.mark.database

NATIVE = CONFIG.replace("{fake}/v1\n", "{fake}/v1\n    files: native\n")
QUESTION = {"type": "text", "text": "What does it say?"}


def upload(client: openai.OpenAI, name: str, data: bytes) -> str:
    return client.files.create(file=(name, data), purpose="user_data").id


def ask(client, *parts, model="assistant", messages=(), **more):
    content = [QUESTION, *parts]
    return client.chat.completions.create(
        model=model,
        messages=[*messages, {"role": "user", "content": content}],
        **more,
    )


def part(file_id: str) -> dict:
    return {"type": "file", "file": {"file_id": file_id}}


def sent(fake):
    """The last message that the provider received."""
    return fake.bodies[-1]["messages"][-1]["content"]


def test_pdf_is_sent_as_text_where_models_do_not_read_it(mine, fake):
    fake.reply("Hello.")
    ask(mine, part(upload(mine, "a.pdf", pdf("Ham and eggs", "Page two"))))
    text = sent(fake)
    assert text.startswith('What does it say?\n\n<file name="a.pdf">\nHam and eggs')
    assert "Page two" in text


def test_pdf_is_sent_as_it_is_where_models_read_it(configure, mine, fake):
    configure(NATIVE)
    fake.reply("Hello.")
    data = pdf("Ham and eggs")
    ask(mine, part(upload(mine, "a.pdf", data)))
    encoded = base64.b64encode(data).decode()
    assert sent(fake)[1] == {
        "type": "file",
        "file": {
            "filename": "a.pdf",
            "file_data": f"data:application/pdf;base64,{encoded}",
        },
    }


def inline(name: str | None, data: bytes, prefix: str = "") -> dict:
    encoded = prefix + base64.b64encode(data).decode()
    file = {"file_data": encoded} | ({"filename": name} if name else {})
    return {"type": "file", "file": file}


@pytest.mark.parametrize("prefix", ["", "data:application/pdf;base64,"])
def test_files_within_messages_are_read_like_stored_ones(mine, fake, prefix):
    fake.reply("Hello.")
    ask(mine, inline("a.pdf", pdf("Ham and eggs"), prefix), inline(None, b"A note"))
    text = sent(fake)
    assert '<file name="a.pdf">\nHam and eggs' in text
    assert '<file name="file">\nA note\n</file>' in text


def test_files_within_messages_reach_models_that_read_them(mine, fake):
    fake.reply("Hello.")
    data = pdf("Ham")
    files = [inline("a.pdf", data), inline("a.png", PNG), inline("a.txt", b"A note")]
    ask(mine, *files, model="claude")
    document, image, note = sent(fake)[1:]
    assert document["source"]["media_type"] == "application/pdf"
    assert base64.b64decode(document["source"]["data"]) == data
    assert image["source"]["media_type"] == "image/png"
    assert note["text"] == '<file name="a.txt">\nA note\n</file>'


def test_names_of_files_within_messages_are_cleaned(mine, fake):
    fake.reply("Hello.")
    ask(mine, inline('../a\n"b".txt', b"A note"))
    assert "<file name=\"a'b'.txt\">\nA note\n</file>" in sent(fake)


def test_unknown_files_within_messages_are_passed_on(mine, fake):
    part = inline("a.docx", b"PK\3\4 words")
    ask(mine, part)
    assert sent(fake)[1] == part


def test_damaged_file_within_messages_is_refused_once(mine, fake):
    broken = inline("a.pdf", b"%PDF-1.4 nothing")
    with pytest.raises(openai.BadRequestError, match=r"'a\.pdf' cannot be read"):
        ask(mine, broken)
    history = [
        {"role": "user", "content": [QUESTION, broken]},
        {"role": "assistant", "content": "Nothing."},
    ]
    ask(mine, messages=history)
    assert "(file a.pdf is left out)" in fake.bodies[-1]["messages"][-3]["content"]


def test_anthropic_receives_documents_and_images(mine, fake):
    fake.reply("Hello.")
    data = pdf("Ham")
    files = [upload(mine, "a.pdf", data), upload(mine, "a.png", PNG)]
    ask(mine, *map(part, files), model="claude")
    document, image = sent(fake)[1:]
    assert (document["type"], document["title"]) == ("document", "a.pdf")
    assert base64.b64decode(document["source"]["data"]) == data
    assert image["source"]["media_type"] == "image/png"


def test_fallback_that_reads_no_pdf_decides(configure, mine, fake):
    fallback = "  - name: both\n    provider: anthropic\n    model: claude-test\n"
    configure(CONFIG + fallback + "    fallbacks: [assistant]\n")
    fake.reply("Hello.")
    ask(mine, part(upload(mine, "a.pdf", pdf("Ham"))), model="both")
    assert "Ham" in json.dumps(sent(fake))


@pytest.mark.parametrize(
    ("name", "data", "text"),
    [
        ("a.txt", "häuser".encode(), "häuser"),
        ("a.csv", "häuser".encode("utf-16"), "häuser"),
        ("a.json", "häuser".encode("cp1252"), "häuser"),
        ("a.svg", b"<svg/>", "<svg/>"),
        ('say "hi".md', b"# Hi", "# Hi"),
    ],
)
def test_text_is_decoded(mine, fake, name, data, text):
    fake.reply("Hello.")
    ask(mine, part(upload(mine, name, data)))
    shown = name.replace('"', "'")
    assert sent(fake).endswith(f'<file name="{shown}">\n{text}\n</file>')


def test_long_text_is_cut(mine, fake):
    fake.reply("Hello.")
    file = upload(mine, "a.txt", b"word " * 100_000)
    ask(mine, part(file))
    assert len(sent(fake)) < texts.MAX_CHARACTERS + 200
    assert sent(fake).endswith("(the rest is left out)\n</file>")


def test_images_and_audio_keep_their_form(mine, fake):
    fake.reply("Hello.")
    ask(mine, part(upload(mine, "a.png", PNG)), part(upload(mine, "a.wav", WAV)))
    image, audio = sent(fake)[1:]
    encoded = base64.b64encode(PNG).decode()
    assert image["image_url"]["url"] == f"data:image/png;base64,{encoded}"
    assert audio["input_audio"]["format"] == "wav"
    assert base64.b64decode(audio["input_audio"]["data"]) == WAV


def test_input_file_is_another_name(mine, fake):
    fake.reply("Hello.")
    file = upload(mine, "a.txt", b"Ham")
    ask(mine, {"type": "input_file", "file_id": file})
    assert "Ham" in sent(fake)


def test_responses_take_file_ids(mine, fake):
    fake.reply("Hello.")
    text, image = upload(mine, "a.txt", b"Ham"), upload(mine, "a.png", PNG)
    content = [
        {"type": "input_file", "file_id": text},
        {"type": "input_image", "file_id": image, "detail": "auto"},
    ]
    mine.responses.create(
        model="assistant", input=[{"role": "user", "content": content}]
    )
    assert "Ham" in sent(fake)[0]["text"]
    assert sent(fake)[1]["type"] == "image_url"


def test_transcript_has_the_id_and_history_the_content(mine, fake, user_id):
    fake.reply("First.")
    file = upload(mine, "a.txt", b"Ham and eggs")
    ask(mine, part(file))
    stored = StoredMessage.objects.filter(thread__user_id=user_id).order_by("position")
    assert "Ham" not in stored[0].extra
    assert json.loads(stored[0].extra)["content"][1]["file"] == {
        "file_id": file,
        "filename": "a.txt",
        "content_type": "text/plain",
        "bytes": 12,
    }
    fake.reply("Second.")
    ask(mine)
    assert "Ham and eggs" in fake.bodies[-1]["messages"][-3]["content"]
    mine.files.delete(file)
    fake.reply("Third.")
    ask(mine)
    history = json.dumps(fake.bodies[-1]["messages"])
    assert "(file a.txt was deleted)" in history
    assert "Ham" not in history


def test_deleted_file_in_a_resent_conversation_is_a_note(mine, fake):
    file = upload(mine, "a.txt", b"Ham and eggs")
    mine.files.delete(file)
    fake.reply("Second.")
    resent = [
        {"role": "user", "content": [QUESTION, part(file)]},
        {"role": "assistant", "content": "First."},
    ]
    ask(mine, messages=resent, metadata={"history": "client"})
    assert f"(file {file} was deleted)" in json.dumps(fake.bodies[-1]["messages"])


def test_resent_conversation_with_a_file_is_recognised(mine, fake, user_id):
    file = upload(mine, "a.txt", b"Ham and eggs")
    question = {"role": "user", "content": [QUESTION, part(file)]}
    fake.reply("First.")
    ask(mine, part(file))
    mine.files.create(file=("b.txt", b"Ham and eggs"), purpose="user_data")
    for is_deleted in (False, True):
        if is_deleted:
            mine.files.delete(file)
        reply = {"role": "assistant", "content": "First."}
        fake.reply("Second.")
        ask(mine, messages=[question, reply])
        stored = StoredMessage.objects.filter(thread__user_id=user_id)
        # No branch of the thread repeats the first question.
        assert len([row for row in stored if file in row.extra]) == 1


def test_audio_is_not_sent_again(mine, fake):
    fake.reply("First.")
    ask(mine, part(upload(mine, "a.wav", WAV)))
    fake.reply("Second.")
    ask(mine)
    history = json.dumps(fake.bodies[-1]["messages"])
    assert "(audio)" in history
    assert "input_audio" not in history


def test_pdf_is_read_once(mine, fake, monkeypatch):
    runs = []
    run = texts._run_worker
    monkeypatch.setattr(
        texts, "_run_worker", lambda opened: runs.append(1) or run(opened)
    )
    file = upload(mine, "a.pdf", pdf("Ham"))
    for _ in range(2):
        fake.reply("Hello.")
        ask(mine, part(file))
    assert runs == [1]
    row = File.objects.get(pk=file.removeprefix("file-"))
    assert row.text.strip() == "Ham"


# What is refused.


@pytest.mark.parametrize("is_other", [True, False], ids=["other user", "unknown"])
def test_unknown_file_is_refused(mine, as_user, fake, is_other):
    other = as_user(f"other-{uuid.uuid4()}")
    file = upload(other, "a.txt", b"Ham") if is_other else f"file-{'0' * 32}"
    with pytest.raises(openai.NotFoundError) as refused:
        ask(mine, part(file))
    assert refused.value.param == "messages[0].content[1].file.file_id"
    assert refused.value.body["message"] == f"No such File object: {file}"
    assert not fake.requests


def test_type_that_the_model_cannot_read_is_refused(mine, fake):
    file = upload(mine, "a.bin", bytes(range(256)))
    with pytest.raises(openai.APIStatusError) as refused:
        ask(mine, part(file))
    assert refused.value.status_code == 400
    assert refused.value.code == "unsupported_file_type"
    for word in ("a.bin", "application/octet-stream", "gpt-test", "assistant"):
        assert word in refused.value.message
    assert not fake.requests


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (pdf("Ham", password="secret"), "needs a password"),
        (b"%PDF-1.7 and nothing else", "damaged"),
        (pdf(""), "contains no text"),
    ],
    ids=["encrypted", "damaged", "scanned"],
)
def test_unreadable_pdf_is_refused(mine, fake, data, reason):
    file = upload(mine, "a.pdf", data)
    with pytest.raises(openai.BadRequestError) as refused:
        ask(mine, part(file))
    assert refused.value.code == "file_unreadable"
    assert reason in refused.value.message
    assert not fake.requests


def test_slow_pdf_is_given_up(mine, fake, monkeypatch):
    monkeypatch.setattr(texts, "MAX_SECONDS", 0.01)
    file = upload(mine, "a.pdf", pdf("Ham"))
    with pytest.raises(openai.BadRequestError) as refused:
        ask(mine, part(file))
    assert refused.value.code == "file_unreadable"


def test_too_many_files_are_refused(mine, fake):
    file = upload(mine, "a.txt", b"Ham")
    with pytest.raises(openai.BadRequestError) as refused:
        ask(mine, *[part(file)] * 51)
    assert "more than 50 files" in refused.value.message


def test_part_without_content_is_refused(mine):
    with pytest.raises(openai.BadRequestError) as refused:
        ask(mine, {"type": "file", "file": {"filename": "a.txt"}})
    assert "file_id" in refused.value.message


def test_files_count_towards_the_prompt():
    def estimate(**file):
        return estimate_message(Message("user", [{"type": "file", "file": file}]))

    assert estimate(file_id="f", content_type="text/plain", bytes=4000) > 1000
    assert estimate(file_id="f", content_type="image/png", bytes=10**7) < 1000
    assert (
        10_000
        < estimate(file_id="f", content_type="application/pdf", bytes=10**6)
        < (MAX_FILE_TEXT_TOKENS)
    )
    huge = estimate(file_id="f", content_type="text/plain", bytes=10**9)
    assert huge == pytest.approx(MAX_FILE_TEXT_TOKENS, abs=10)


def test_digest_of_a_file_part_is_that_of_its_id():
    def digest(**file):
        return digests.extend_digest(
            b"", Message("user", [QUESTION, {"type": "file", "file": file}])
        )

    stored = digest(file_id="file-1", filename="a.txt", bytes=12)
    assert digest(file_id="file-1") == stored
    assert digest(file_id="file-2") != stored
