"""The page of `examples/voice`: its script talks to the real server."""

import json
import re
import shutil
import subprocess
import uuid
from pathlib import Path

import pytest
from django.conf import settings

from tests.gateway.memory.test_recall import know
from tests.gateway.memory_client import MemoryClient
from tests.gateway.openai.test_realtime import REMEMBERING

pytestmark = pytest.mark.database

PAGE = Path(settings.BASE_DIR) / "examples/voice"
SCRIPTS = sorted(PAGE.glob("*.js"))
NODE = shutil.which("node")
needs_node = pytest.mark.skipif(NODE is None, reason="node is not installed")


@pytest.fixture
def server(running, configure) -> str:
    configure(REMEMBERING)
    return running


def said(item, text):
    return [
        {"type": "input_audio_buffer.committed", "item_id": item},
        {
            "type": "conversation.item.input_audio_transcription.completed",
            "item_id": item,
            "transcript": text,
        },
    ]


def replied(*output):
    response = {"id": uuid.uuid4().hex, "output": list(output)}
    return [
        {"type": "response.created", "response": response},
        {"type": "response.done", "response": response},
    ]


def spoken(text):
    content = [{"type": "output_audio", "transcript": text}]
    return {"type": "message", "role": "assistant", "content": content}


def called(name, **arguments):
    call = {"name": name, "call_id": "call_1", "arguments": json.dumps(arguments)}
    return {"type": "function_call", **call}


def play(server, user, *events, thread="calls"):
    """Return what the page sends to the model."""
    command = [NODE, "tests/gateway/openai/voice_conversation.mjs"]
    done = subprocess.run(
        [*command, server, user, thread],
        cwd=settings.BASE_DIR,
        input=json.dumps([each for group in events for each in group]),
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def stored(http, user, thread="calls"):
    page = MemoryClient(http, user).get(f"/v1/threads/{thread}/messages", order="asc")
    return [(each["role"], each["content"]) for each in page["data"]]


@needs_node
def test_page_stores_what_was_said_and_ends_the_session(server, http, user):
    events = [
        said("item_1", "I moved to Oslo."),
        replied(spoken("How nice!")),
        # The user interrupts a reply that has not begun.
        said("item_2", "And then"),
        replied(),
        said("item_3", "I bought skis."),
        replied(spoken("Great.")),
    ]
    expected = [
        ("user", "I moved to Oslo."),
        ("assistant", "How nice!"),
        ("user", "And then\nI bought skis."),
        ("assistant", "Great."),
    ]
    assert play(server, user, *events) == []
    assert stored(http, user) == expected
    (session,) = MemoryClient(http, user).get("/v1/threads/calls/sessions")["data"]
    assert session["ended_at"] is not None
    # Repeated items are the same turns; the next call begins with what was said.
    recalled = play(server, user, *events[:2])
    texts = [event["item"]["content"][0]["text"] for event in recalled]
    assert texts == [text for _, text in expected]
    assert stored(http, user) == expected


@needs_node
def test_page_runs_tools_before_the_reply(server, http, user):
    know(user, "Has a cat called Miu")
    sent = play(
        server,
        user,
        said("item_1", "Forget my cat."),
        replied(called("forget_memory", query="cat")),
        replied(called("forget_memory", query="cat", confirmed=True)),
        replied(spoken("Shall I?")),
        said("item_2", "Yes."),
        replied(called("forget_memory", query="cat", confirmed=True)),
        replied(spoken("Done.")),
    )
    types = ["conversation.item.create", "response.create"] * 3
    assert [event["type"] for event in sent] == types
    asked, refused, done = (event["item"]["output"] for event in sent[::2])
    assert "would_forget" in asked
    assert refused.startswith("Error: ")
    assert "forgotten" in done
    # The turn with the question is withheld, as it mentions the fact.
    assert ("user", "Yes.") in stored(http, user)


@needs_node
@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.name)
def test_script_is_valid(script, tmp_path):
    module = tmp_path / f"{script.stem}.mjs"
    module.write_text(script.read_text())
    subprocess.run([NODE, "--check", module], check=True, timeout=60)


def test_page_calls_endpoints_that_exist(server, http):
    paths = http.get("/v1/openapi.json").json()["paths"]
    patterns = [re.compile(re.sub(r"{[^}]*}", "[^/]+", path)) for path in paths]
    text = "".join(script.read_text() for script in SCRIPTS)
    called = re.findall(r"[\"`](/v1/[^\"`?]*)", text)
    assert len(called) >= 4
    for path in called:
        plain = re.sub(r"\${[^}]*}", "x", path)
        assert any(each.fullmatch(plain) for each in patterns), path


def test_page_loads_its_scripts():
    html = (PAGE / "index.html").read_text()
    assert re.findall(r'src="([^"]+)"', html) == ["page.js"]
    for name in re.findall(r'from "\./([^"]+)"', (PAGE / "page.js").read_text()):
        assert (PAGE / name).exists()
    ids = set(re.findall(r'id="(\w+)"', html))
    assert set(re.findall(r'element\("(\w+)"\)', (PAGE / "page.js").read_text())) <= ids
