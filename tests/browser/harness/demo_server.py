"""The demo's configuration and a month of its traffic, served by the real processes."""

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

REPLACEMENTS = {
    "users: shared\n\n": "",  # The token identifies the user.
    "${ANTHROPIC_API_KEY:-unset}": "for-the-fake-1\n    base_url: {fake}",
    "${OPENAI_API_KEY:-unset}": "for-the-fake-2\n    base_url: {fake}/v1",
    "kind: local": "kind: openai\n    base_url: {fake}/v1",
    "${CELLAR_URL:-http://localhost:11434/v1}": "{fake}/v1",
}
"""Changes to the demo's YAML that send every model request to the fake provider."""
SERVER_YAML = """
# Clients need a token.
auth:
  proxy:
    tokens: {{}}

server:
  bind: 127.0.0.1 # this machine only
  port: {port}
"""
USERS, TURNS, MESSAGES = 60, 900, 1500
"""Sizes of the sample data: enough rows for every chart and list."""
FILES = {
    "seats.csv": "row,seat,price\nA,1,40\nA,2,40\nB,1,32\n",
    "rehearsals.md": "# Rehearsals\n\nMonday at six, Thursday at seven.\n",
    "programme.txt": "The evening begins at seven and ends at ten.\n",
}
"""Names and contents of uploaded files, the newest last."""
HELD_PROMPT = "Wait for the cue"
"""A prompt with this text gets its reply when the fake provider is released."""
REPLY = "We open at seven. Two seats are held for you until then."


def prepare_project(project: Project, fake: FakeProvider) -> None:
    """Write the demo's YAML and fill the database."""
    project.environment.pop("COULISSE_PROCESSES")
    project.environment["DJANGO_SETTINGS_MODULE"] = "coulisse_site.settings"
    (project.root / ".coulisse").mkdir()
    project.config.write_text(demo_yaml(project, fake))
    run_command(project, "migrate")
    sizes = {"--users": USERS, "--turns": TURNS, "--messages": MESSAGES}
    run_command(project, "demo", *(f"{name}={size}" for name, size in sizes.items()))


def demo_yaml(project: Project, fake: FakeProvider) -> str:
    """Return the demo's YAML for this project and fake provider."""
    text = starter_file.TEMPLATES.joinpath("demo.yaml").read_text()
    for old, new in REPLACEMENTS.items():
        assert old in text, f"demo.yaml does not contain {old!r}"
        text = text.replace(old, new)
    return text.replace("{fake}", fake.root_url) + SERVER_YAML.format(port=project.port)


def run_command(project: Project, *arguments: str) -> None:
    """Run a management command that must succeed."""
    process: subprocess.CompletedProcess[str] = project.run(*arguments)
    assert process.returncode == 0, process.stderr


def create_task(client: openai.OpenAI, prompt: str) -> str:
    """Create a task for the agent `translator`; return its id."""
    body = {"agent": "translator", "prompt": prompt}
    task = client.post("/tasks", body=body, cast_to=object)
    task_id: str = task["id"]  # type: ignore[index]
    return task_id


def scripted_answer(request: RecordedRequest) -> ScriptedAnswer:
    """Return a valid answer for agents, judges, extraction and personas."""
    body = request.body
    schema = response_schema(body)
    if schema is not None:
        return ScriptedAnswer((json.dumps(smallest_instance(schema, schema)),))
    if "[FIN]" in json.dumps(body):
        roles = [message["role"] for message in body["messages"]]
        is_last = "assistant" in roles
        text = "Thank you. [FIN]" if is_last else "When is the bus back?"
        return ScriptedAnswer((text,))
    is_held = HELD_PROMPT in json.dumps(body)
    hang: StreamPoint | None = "first_token" if is_held else None
    return ScriptedAnswer(tuple(re.findall(r"\S+\s*", REPLY)), hang=hang)


def response_schema(body: Any) -> Any:
    """Return the JSON schema that a request sets for its reply, on either wire."""
    output = body.get("response_format") or body.get("output_format") or {}
    config = body.get("output_config") or {}
    output = output or config.get("format") or {}
    return output.get("json_schema", output).get("schema")


def smallest_instance(schema: Any, root: Any) -> Any:
    """Return a small instance of a JSON schema."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return smallest_instance(root["$defs"][name], root)
    if "enum" in schema:
        return schema["enum"][0]
    for keyword in ("anyOf", "oneOf", "allOf"):
        if keyword in schema:
            return smallest_instance(schema[keyword][0], root)
    match schema.get("type"):
        case "object":
            properties = schema.get("properties", {})
            return {
                name: smallest_instance(subschema, root)
                for name, subschema in properties.items()
            }
        case "array":
            return []
        case "integer" | "number":
            return min(8, schema.get("maximum", 8))
        case "boolean":
            return False
        case "null":
            return None
    return "fine"


class DemoServer:
    """A client of the running server's JSON API."""

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
        """Return the JSON of a page."""
        return self._json(self.http.get(path))

    def post(self, path: str, body: Any) -> Any:
        """Post JSON; return the response's JSON."""
        return self._json(self.http.post(path, json=body))

    def openai_client(self, token: str) -> openai.OpenAI:
        """Return an OpenAI client that uses this token."""
        return openai.OpenAI(
            base_url=f"{self.url}/v1",
            api_key=token,
            max_retries=0,
            timeout=60,
            http_client=openai.DefaultHttpxClient(verify=False),
        )

    def upload_files(self) -> None:
        """Upload the files of `FILES` as a user."""
        token = self.post("/admin/tokens", {"label": "uploads", "principal": "visitor"})
        with self.openai_client(token["secret"]) as client:
            for name, text in FILES.items():
                client.files.create(file=(name, text.encode()), purpose="user_data")

    @staticmethod
    def _json(response: httpx2.Response) -> Any:
        request = response.request
        assert response.status_code < 300, f"{request.url}: {response.text[:500]}"
        return response.json()
