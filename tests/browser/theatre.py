"""The demo's theatre with its month of traffic, served by the real processes."""

import json
import re
import subprocess
from typing import Any

import httpx2
import openai

from config.starters import starter_file
from testing.scripted_provider import FakeProvider, RecordedRequest
from testing.wires import ScriptedAnswer, StreamPoint
from tests.processes.conftest import Project

IN_PLACE = {
    "users: shared\n\n": "",  # A token says whose a request is.
    "${ANTHROPIC_API_KEY:-unset}": "for-the-fake-1\n    base_url: {fake}",
    "${OPENAI_API_KEY:-unset}": "for-the-fake-2\n    base_url: {fake}/v1",
    "kind: local": "kind: openai\n    base_url: {fake}/v1",
    "${CELLAR_URL:-http://localhost:11434/v1}": "{fake}/v1",
}
"""Every model is the fake's."""
SERVER = """
# Who may call: see the tokens' page.
auth:
  proxy:
    tokens: {{}}

server:
  bind: 127.0.0.1 # nobody else's business
  port: {port}
"""
PEOPLE, TURNS, MESSAGES = 60, 900, 1500
"""Enough for every chart and list, made in a second."""
CUE = "Wait for the cue"
"""What makes a model say its first words only when the fake is released."""
SAID = "We open at seven. Two seats are held for you until then."


def prepare(project: Project, fake: FakeProvider) -> None:
    """Write the theatre's YAML and fill its database."""
    project.environment.pop("COULISSE_PROCESSES")
    project.environment["DJANGO_SETTINGS_MODULE"] = "coulisse_site.settings"
    (project.root / ".coulisse").mkdir()
    project.config.write_text(configuration(project, fake))
    run(project, "migrate")
    sizes = zip(
        ("--users", "--turns", "--messages"), (PEOPLE, TURNS, MESSAGES), strict=True
    )
    run(project, "demo", *(str(word) for size in sizes for word in size))


def configuration(project: Project, fake: FakeProvider) -> str:
    """Return the demo's YAML, for this project and provider."""
    text = starter_file.TEMPLATES.joinpath("demo.yaml").read_text()
    for theirs, ours in IN_PLACE.items():
        assert theirs in text, f"the demo has no {theirs} any more"
        text = text.replace(theirs, ours)
    return text.replace("{fake}", fake.root_url) + SERVER.format(port=project.port)


def run(project: Project, *words: str) -> None:
    """Run a command that must succeed."""
    done: subprocess.CompletedProcess[str] = project.run(*words)
    assert done.returncode == 0, done.stderr


def asked(client: openai.OpenAI, prompt: str) -> str:
    """Return the task that the translator is given."""
    body = {"agent": "translator", "prompt": prompt}
    task = client.post("/tasks", body=body, cast_to=object)
    found: str = task["id"]  # type: ignore[index]
    return found


def answer(request: RecordedRequest) -> ScriptedAnswer:
    """Say what a model of the theatre would, whoever asks."""
    body = request.body
    wanted = shape_wanted(body)
    if wanted is not None:
        return ScriptedAnswer((json.dumps(instance(wanted, wanted)),))
    if "[FIN]" in json.dumps(body):
        roles = [message["role"] for message in body["messages"]]
        said = "Thank you. [FIN]" if "assistant" in roles else "When is the bus back?"
        return ScriptedAnswer((said,))
    hang: StreamPoint | None = "first_token" if CUE in json.dumps(body) else None
    return ScriptedAnswer(tuple(re.findall(r"\S+\s*", SAID)), hang=hang)


def shape_wanted(body: Any) -> Any:
    """Return the JSON schema a reply must have, on either wire."""
    asked = body.get("response_format") or body.get("output_format") or {}
    config = body.get("output_config") or {}
    asked = asked or config.get("format") or {}
    return asked.get("json_schema", asked).get("schema")


def instance(schema: Any, root: Any) -> Any:
    """Return the least that fits a schema."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return instance(root["$defs"][name], root)
    if "enum" in schema:
        return schema["enum"][0]
    for some in ("anyOf", "oneOf", "allOf"):
        if some in schema:
            return instance(schema[some][0], root)
    match schema.get("type"):
        case "object":
            parts = schema.get("properties", {})
            return {name: instance(part, root) for name, part in parts.items()}
        case "array":
            return []
        case "integer" | "number":
            return min(8, schema.get("maximum", 8))
        case "boolean":
            return False
        case "null":
            return None
    return "fine"


class Theatre:
    """The running server, as scripts know it."""

    def __init__(self, project: Project, fake: FakeProvider) -> None:
        self.project, self.fake = project, fake
        self.url = project.url
        self.http = httpx2.Client(
            base_url=self.url,
            timeout=60,
            verify=False,
            headers={"Accept": "application/json"},
        )

    def get(self, path: str) -> Any:
        """Return what a face tells scripts."""
        return self._told(self.http.get(path))

    def post(self, path: str, body: Any) -> Any:
        """Have a face do something."""
        return self._told(self.http.post(path, json=body))

    @staticmethod
    def _told(answer: httpx2.Response) -> Any:
        assert answer.status_code < 300, f"{answer.request.url}: {answer.text[:500]}"
        return answer.json()
