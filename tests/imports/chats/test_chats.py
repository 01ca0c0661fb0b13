"""Conversations of other systems become threads: `import chatgpt|openwebui`."""

import uuid
import zipfile
from datetime import UTC, datetime, timedelta

import pytest
from django.core.management import CommandError

from access.users import identity
from core.messages import Message
from imports import chatgpt
from imports.chats import archives, json_stream
from memory.extraction import extraction_worker
from memory.models import Passage, StoredMessage, Thread
from memory.recall import search
from memory.recall.types import Query
from memory.transcript import branches, conversations
from memory.transcript.branches import SentConversation
from tasks.models import EXTRACTION, Task
from tests.imports.chats import exports
from tests.imports.chats.exports import TIME

pytestmark = [pytest.mark.database, pytest.mark.usefixtures("database")]

NOON = datetime.fromtimestamp(TIME, UTC)


def transcript(user_id, thread):
    rows = StoredMessage.objects.filter(thread__user_id=user_id, thread__name=thread)
    return list(rows.order_by("position").values_list("role", "text"))


def rows_of(user_id):
    threads = Thread.objects.filter(user_id=user_id)
    messages = StoredMessage.objects.filter(thread__user_id=user_id)
    return (
        list(threads.order_by("id").values()),
        list(messages.order_by("id").values()),
        Task.objects.filter(user_id=user_id).count(),
    )


@pytest.fixture
def export(tmp_path):
    def export(data, filename="export.json"):
        return exports.write(tmp_path / filename, data)

    return export


# ChatGPT


def test_chatgpt_conversation_is_a_thread_of_its_current_branch(
    run_import, export, name, user_id
):
    report = run_import("chatgpt", export([exports.oslo("c1")]), "--user", name)
    assert transcript(user_id, "chatgpt-c1") == [
        ("user", "I am going to Oslo in May."),
        ("assistant", "Take a coat."),
        ("user", "Where was this taken?"),
        ("assistant", "At the opera."),
    ]
    thread = Thread.objects.get(user_id=user_id)
    assert thread.title == "Trip to Oslo"
    assert thread.created_at == NOON
    assert thread.updated_at == NOON + timedelta(seconds=110)
    times = thread.messages.order_by("position").values_list("created_at", flat=True)
    assert [(at - NOON).seconds for at in times] == [0, 10, 100, 110]
    counts = report["counts"]
    assert counts["conversations"]["written"] == 1
    assert counts["messages"] == {
        "read": 4,
        "written": 4,
        "existing": 0,
        "skipped": 0,
    }
    assert counts["attachments"]["skipped"] == 1


def test_second_run_changes_nothing(run_import, export, name, user_id):
    data = [exports.oslo("c1"), exports.oslo("c2")]
    run_import("chatgpt", export(data), "--user", name)
    before = rows_of(user_id)
    report = run_import("chatgpt", export(data), "--user", name)
    assert rows_of(user_id) == before
    assert report["counts"]["conversations"] == {
        "read": 2,
        "written": 0,
        "existing": 2,
        "skipped": 0,
    }
    assert report["counts"]["messages"]["existing"] == 8


def test_dry_run_reports_and_writes_nothing(run_import, export, name, user_id):
    path = export([exports.oslo("c1")])
    report = run_import("chatgpt", path, "--user", name, "--dry-run")
    assert report["counts"]["messages"]["written"] == 4
    assert rows_of(user_id) == ([], [], 0)


def test_continued_conversation_gets_its_new_turns(run_import, export, name, user_id):
    run_import("chatgpt", export([exports.oslo("c1")]), "--user", name)
    conversations.set_title(user_id, "chatgpt-c1", "Norway")
    longer = exports.oslo("c1")
    for node in (
        exports.chatgpt_node("q3", "user", "And Bergen?", parent="a2", seconds=200),
        exports.chatgpt_node("a3", "assistant", "Rain.", parent="q3", seconds=210),
    ):
        longer["mapping"][node["id"]] = node
    longer["current_node"] = "a3"
    report = run_import("chatgpt", export([longer]), "--user", name)
    assert transcript(user_id, "chatgpt-c1")[4:] == [
        ("user", "And Bergen?"),
        ("assistant", "Rain."),
    ]
    assert report["counts"]["messages"]["written"] == 2
    assert Thread.objects.get(user_id=user_id).title == "Norway"


def test_conversation_that_went_on_here_is_left_alone(
    run_import, export, name, user_id
):
    run_import("chatgpt", export([exports.oslo("c1")]), "--user", name)
    conversations.append(user_id, "chatgpt-c1", [Message("user", "Hello again.")])
    before = rows_of(user_id)
    report = run_import("chatgpt", export([exports.oslo("c1")]), "--user", name)
    assert report["counts"]["conversations"]["existing"] == 1
    changed = exports.oslo("c1")
    changed["current_node"] = "a0"
    report = run_import("chatgpt", export([changed]), "--user", name)
    assert "differently here" in report["skipped"][0]["reason"]
    assert rows_of(user_id) == before


def test_last_question_without_a_reply_waits_for_it(run_import, export, name, user_id):
    data = exports.oslo("c1")
    data["current_node"] = "q2"
    report = run_import("chatgpt", export([data]), "--user", name)
    assert len(transcript(user_id, "chatgpt-c1")) == 2
    assert report["counts"]["messages"]["skipped"] == 1
    run_import("chatgpt", export([exports.oslo("c1")]), "--user", name)
    assert len(transcript(user_id, "chatgpt-c1")) == 4


def test_archive_with_several_files_is_read_without_unpacking(
    run_import, tmp_path, name, user_id
):
    path = tmp_path / "export.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("chat.html", "<html>")
        for number in range(2):
            data = exports.oslo(f"c{number}")
            part = exports.write(tmp_path / "part.json", [data]).read_text()
            archive.writestr(f"x/conversations-00{number}.json", part)
        archive.writestr("shared_conversations.json", "[]")
    report = run_import("chatgpt", path, "--user", name)
    assert report["counts"]["conversations"]["written"] == 2


def test_broken_text_is_stored_readably(run_import, tmp_path, name, user_id):
    text = exports.write(tmp_path / "x.json", [exports.oslo("c1")]).read_text()
    text = text.replace("Take a coat.", r"Take \ud83d a\u0000coat.")
    (tmp_path / "x.json").write_text(text)
    run_import("chatgpt", tmp_path / "x.json", "--user", name)
    assert transcript(user_id, "chatgpt-c1")[1][1].startswith("Take ")


def test_agent_with_threads_of_its_own_has_the_conversations(
    run_import, export, name, user_id
):
    path = export([exports.oslo("c1")])
    run_import("chatgpt", path, "--user", name, "--agent", "loner")
    assert len(transcript(user_id, "chatgpt-c1@loner")) == 4


# Search


def test_imported_messages_are_found_by_search(run_import, export, name, user_id):
    report = run_import("chatgpt", export([exports.oslo("c1")]), "--user", name)
    tasks = Task.objects.filter(user_id=user_id, kind=EXTRACTION)
    assert [task.payload["search_only"] for task in tasks] == [True, True]
    while task := Task.objects.claim(EXTRACTION, users=[user_id]):
        extraction_worker.run(task)
    found = search.search_messages(user_id, Query("opera"), limit=9)
    assert "At the opera." in [hit.text for hit in found]
    passages = Passage.objects.filter(user_id=user_id)
    assert {each.embedder for each in passages} == {"hash:1024"}
    assert report["notes"] == [
        "a worker makes the conversations searchable in the background"
    ]


def test_learn_extracts_facts_and_needs_memory(run_import, export, name, user_id):
    path = export([exports.oslo("c1")])
    with pytest.raises(CommandError, match="does not remember users"):
        run_import("chatgpt", path, "--user", name, "--learn", "--agent", "loner")
    run_import("chatgpt", path, "--user", name, "--learn")
    tasks = Task.objects.filter(user_id=user_id, kind=EXTRACTION)
    assert [task.payload.get("search_only") for task in tasks] == [None, None]


# Open WebUI


def test_openwebui_chat_is_the_thread_that_its_client_continues(
    run_import, export, name, user_id
):
    chat = str(uuid.uuid4())
    run_import("openwebui", export([exports.soup(chat)]), "--user", name)
    assert transcript(user_id, chat) == [
        ("user", "I love leeks. A soup?"),
        ("assistant", "Use leeks."),
    ]
    assert Thread.objects.get(user_id=user_id).title == "🍲 Soup"
    sent = SentConversation(
        [
            Message("user", "I love leeks. A soup?"),
            Message("assistant", "Use leeks."),
            Message("user", "And salt?"),
        ],
        is_whole=True,
        new_count=1,
    )
    place = branches.find_place(user_id, chat, uuid.uuid4(), sent)
    assert (place.thread, place.known, place.parent) == (chat, 2, 1)


def test_each_account_of_openwebui_is_its_own_user(run_import, export, name):
    ada, bob = str(uuid.uuid4()), str(uuid.uuid4())
    data = [exports.soup("a", ada), exports.soup("b", bob)]
    with pytest.raises(CommandError, match=r"of 2 accounts; .*--user '\{user_id\}'"):
        run_import("openwebui", export(data), "--user", name)
    run_import("openwebui", export(data), "--user", "{user_id}")
    run_import("openwebui", export(data), "--user", f"{name}/{{user_id}}")
    for account, chat in ((ada, "a"), (bob, "b")):
        for user in (account, f"{name}/{account}"):
            threads = Thread.objects.filter(user_id=identity.derive_user_id(user))
            assert [each.name for each in threads] == [chat]


# What cannot be read

MALFORMED_CONVERSATIONS = {
    "text": ("Hi", "not an object"),
    "no id": ({**exports.oslo(""), "id": None}, "id is missing"),
    "long id": ({**exports.oslo("x" * 300)}, "not a short text"),
    "line break in id": ({**exports.oslo("x\ny")}, "not a short text"),
    "no mapping": ({**exports.oslo("c"), "mapping": []}, "messages are missing"),
    "no current": ({**exports.oslo("c"), "current_node": None}, "is not named"),
    "missing node": ({**exports.oslo("c"), "current_node": "x"}, "that is missing"),
    "number as node": ({**exports.oslo("c"), "current_node": [1]}, "that is missing"),
    "empty": (exports.chatgpt_conversation("c", last="client-created-root"), "reply"),
}


@pytest.mark.parametrize(
    ("data", "reason"), MALFORMED_CONVERSATIONS.values(), ids=MALFORMED_CONVERSATIONS
)
def test_malformed_conversation_is_skipped_with_its_reason(
    run_import, export, name, data, reason
):
    report = run_import("chatgpt", export([data, exports.oslo("good")]), "--user", name)
    assert reason in report["skipped"][0]["reason"]
    assert report["counts"]["conversations"]["written"] == 1


def test_circle_of_messages_is_skipped(run_import, export, name):
    data = exports.oslo("c")
    data["mapping"]["q1"]["parent"] = "a2"
    good = exports.oslo("good")
    report = run_import("chatgpt", export([data, good]), "--user", name)
    assert "in a circle" in report["skipped"][0]["reason"]
    counts = report["counts"]["conversations"]
    assert (counts["read"], counts["written"]) == (2, 1)


@pytest.mark.parametrize("source", ["chatgpt", "openwebui"])
def test_export_of_another_system_is_refused(run_import, export, name, source):
    path = export([{"title": "of another system"}])
    with pytest.raises(CommandError, match="Is it of another system"):
        run_import(source, path, "--user", name)


def test_placeholder_is_for_several_accounts(run_import, export):
    path = export([exports.oslo("c")])
    with pytest.raises(CommandError, match="exports of several accounts"):
        run_import("chatgpt", path, "--user", "{user_id}")


MALFORMED_FILES = {
    "no list": ("{}", "x.json is not a list of conversations, near byte 2"),
    "cut off": ('[{"id": "c1"', "x.json is not valid JSON"),
    "no JSON": ("<html>", "x.json is not valid JSON"),
    "empty": ("", "x.json is not valid JSON"),
    "deep": ("[" * 5000, "more than 100 brackets in brackets"),
}


@pytest.mark.parametrize(
    ("text", "problem"), MALFORMED_FILES.values(), ids=MALFORMED_FILES
)
def test_unreadable_file_is_an_error_with_a_remedy(
    run_import, tmp_path, name, text, problem
):
    path = tmp_path / "x.json"
    path.write_text(text)
    with pytest.raises(CommandError, match=problem) as caught:
        run_import("chatgpt", path, "--user", name)
    assert "export it again" in str(caught.value)


def test_missing_file_is_an_error(run_import, tmp_path, name):
    with pytest.raises(CommandError, match=r"nowhere\.json is not a file"):
        run_import("openwebui", tmp_path / "nowhere.json", "--user", name)


def archive(tmp_path, member, content="[]"):
    path = tmp_path / "export.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr(member, content)
    return path


SUSPICIOUS = {
    "outside": ("../conversations.json", "[]", "leads out of the archive"),
    "absolute": ("/etc/conversations.json", "[]", "leads out of the archive"),
    "backslash": ("..\\conversations.json", "[]", "leads out of the archive"),
    "bomb": ("conversations.json", " " * 10_000_000, "as in a ZIP bomb"),
    "other": ("letters.json", "[]", "has no conversations.json"),
}


@pytest.mark.parametrize(
    ("member", "content", "problem"), SUSPICIOUS.values(), ids=SUSPICIOUS
)
def test_suspicious_archive_is_refused(
    run_import, tmp_path, name, member, content, problem
):
    path = archive(tmp_path, member, content)
    with pytest.raises(CommandError, match=problem):
        run_import("chatgpt", path, "--user", name)


def test_damaged_archive_is_refused(run_import, tmp_path, name):
    path = archive(tmp_path, "conversations.json", '[{"id": "c1"}]' * 100)
    data = path.read_bytes()
    path.write_bytes(data[:60] + b"\xff\xff" + data[62:])
    with pytest.raises(CommandError, match=r"damaged archive|not valid JSON"):
        run_import("chatgpt", path, "--user", name)
    path.write_bytes(data[:100])
    with pytest.raises(CommandError, match="is a damaged archive"):
        run_import("chatgpt", path, "--user", name)


def test_limits_of_size_name_the_place(run_import, export, name, monkeypatch):
    data = [exports.oslo("large"), exports.oslo("c2")]
    data[0]["mapping"]["a0"]["message"]["content"]["parts"] = ["a "] * 100_000
    path = export(data)
    monkeypatch.setattr(json_stream, "MAX_ENTRY_BYTES", 150_000)
    report = run_import("chatgpt", path, "--user", name)
    assert report["skipped"][0]["examples"] == ["conversation 1"]
    assert report["counts"]["conversations"]["written"] == 1
    data[0]["mapping"]["a0"]["message"]["content"]["parts"] = ["a" * 300_000]
    with pytest.raises(CommandError, match="has a text of more than 150,000 bytes"):
        run_import("chatgpt", export(data), "--user", name)
    monkeypatch.setattr(json_stream, "MAX_FILE_BYTES", 150_000)
    with pytest.raises(CommandError, match="is larger than 150,000 bytes"):
        run_import("chatgpt", path, "--user", name)


def test_members_limit(monkeypatch, tmp_path):
    monkeypatch.setattr(archives, "MAX_MEMBERS", 0)
    path = archive(tmp_path, "conversations.json")
    with pytest.raises(Exception, match="more than 0 files"):
        list(chatgpt._read(path))
