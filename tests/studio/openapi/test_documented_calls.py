"""Every call in the documentation of the studio works."""

import re
import shutil
import subprocess
import time
import uuid
from collections.abc import Iterator

import pytest

from access.users.identity import derive_user_id
from mcp_bridge.models import McpToken
from processes.supervision import state_directory
from tests.conftest import CONFIG
from tests.docs.pages import BASE, blocks
from tests.studio.site_wide.write_operations import AT, WriteTargets

pytestmark = [
    pytest.mark.database,
    pytest.mark.skipif(shutil.which("curl") is None, reason="there is no curl here"),
]

TEXT = (
    CONFIG.replace("name: assistant\n", "name: assistant\n    judges: [quality]\n")
    + """
  - {name: bob, provider: openai, model: gpt-test}
judges:
  - {name: quality, provider: openai, model: gpt-test, rubrics: {tone: Politeness.}}
experiments:
  - {name: greeting-styles, strategy: split, variants: [{agent: bob}, {agent: claude}]}
smoke_tests:
  - name: greeting
    target: claude
    persona: {provider: openai, model: gpt-test, preamble: You are new.}
triggers:
  - name: github-issues
    type: webhook
    path: /hooks/issues
    agent: claude
    prompt: "It was {action}."
sidecars:
  - {name: bridge, command: /usr/bin/bridge}
mcp:
  notes: {url: "http://127.0.0.1:9/notes"}
  github: {url: "http://127.0.0.1:9/github"}
"""
)
DOCUMENTED_URL = "http://localhost:8421"
CALL = re.compile(r"^(?:facts=.*\n)?curl (?:.*\\\n)*.*", re.MULTILINE)
CURL = 'curl() { command curl -sS --fail-with-body --max-time 20 "$@"; }\n'
PAGES = ("studio", "overrides")


def documented_blocks() -> list:
    """Return the blocks with calls, by page and number."""
    return [
        pytest.param(body, id=f"{page}-{number}")
        for page in PAGES
        for number, body in enumerate(blocks(BASE / "docs" / f"{page}.md", "bash"))
        if CALL.search(body)
    ]


@pytest.fixture
def targets(script, configure, tmp_path, settings) -> Iterator[WriteTargets]:
    settings.COULISSE_STATE_DIR = tmp_path / ".coulisse"
    files = state_directory.current_state()
    files.prepare()
    configure(TEXT)
    with WriteTargets(script, files) as targets:
        yield targets
    script.delete("/admin/users/alice")


def placeholders(targets: WriteTargets) -> dict[str, str]:
    """Return the values of placeholders in the documentation."""
    chat = {"model": "assistant", "safety_identifier": "alice"}
    message = {**chat, "messages": [{"role": "user", "content": "Hello!"}]}
    assert targets.http.post("/v1/chat/completions", json=message).status_code == 200
    new = {"content": f"Lives in Lisbon since {uuid.uuid4()}."}
    fact = targets.http.post("/admin/users/alice/facts", json=new).json()["id"]
    upload = {"headers": {"X-Coulisse-User": "alice"}, "data": {"purpose": "user_data"}}
    files = {"file": ("programme.txt", b"The evening begins at seven.")}
    targets.http.post("/v1/files", files=files, **upload).raise_for_status()
    file = targets.http.get("/admin/files?user=alice").json()["data"][0]["id"]
    ends = time.monotonic() + 60
    while not (turns := targets.http.get("/admin/users/alice/turns").json()["data"]):
        assert time.monotonic() < ends, "the turn is not recorded"
    McpToken.objects.filter(server="github").delete()
    McpToken.objects.create(
        server="github",
        resource="http://127.0.0.1:9/github",
        key_id="key",
        access_token=b"a",
        user_id=derive_user_id("alice"),
        created_at=AT,
        updated_at=AT,
    )
    return {
        # The page about experiments has this example.
        "experiments/assistant": "experiments/greeting-styles",
        "mem_…": fact,
        "chatcmpl-0190…": turns[0]["completion_id"],
        "4f3c91d2": targets.token[:8],
        "$RUN": targets.run,
        "files/$ID": f"files/{file}",
        "$USER_ID": str(derive_user_id("alice")),
        "$ID/pause": f"{targets.periodic_task}/pause",
        "$ID/cancel": f"{targets.waiting}/cancel",
        "$ID/retry": f"{targets.failed}/retry",
    }


@pytest.mark.parametrize("body", documented_blocks())
def test_documented_call_works(targets, tmp_path, monkeypatch, body) -> None:
    monkeypatch.setenv("GROQ_API_KEY", "of-the-server")
    values = {
        DOCUMENTED_URL: str(targets.http.base_url).rstrip("/"),
        **placeholders(targets),
    }
    shell = CURL + "\n".join(CALL.findall(body))
    for placeholder, value in values.items():
        shell = shell.replace(placeholder, value)
    process = subprocess.run(
        ["bash", "-e", "-c", shell],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert process.returncode == 0, (
        f"{process.stdout[-1500:]}\n{process.stderr[-500:]}\n{shell}"
    )


def test_every_documented_call_is_tried() -> None:
    for page in PAGES:
        text = (BASE / "docs" / f"{page}.md").read_text()
        tried = [
            call
            for body in blocks(BASE / "docs" / f"{page}.md", "bash")
            for call in CALL.findall(body)
        ]
        assert len(tried) == len(re.findall("^curl ", text, re.MULTILINE))
