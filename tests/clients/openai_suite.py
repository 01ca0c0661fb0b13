"""Runs openai-python's own tests against a server with a scripted provider.

    pip download --no-binary openai --no-deps openai==3.52.0
    tar xf openai-3.52.0.tar.gz
    python -m tests.clients.openai_suite openai-3.52.0 -k "strict and not Async"

They are written for a mock: the plugin `openai_ids` replaces its ids by those of real
objects, and values that OpenAI's API refuses. tests/README.md says which tests fail.
"""

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from testing.scripted_provider import FakeProvider

BASE = Path(__file__).resolve().parents[2]
PORT = 8597
TESTS = (
    "chat",
    "responses",
    "conversations",
    "test_completions.py",
    "test_conversations.py",
    "test_embeddings.py",
    "test_files.py",
    "test_models.py",
    "test_moderations.py",
    "test_responses.py",
)
"""The tests of the endpoints that this server has."""
OPTIONS = ("-p", "no:django", "-p", "no:cacheprovider", "-q", "--tb=line")
CONFIG = f"""
server: {{port: {PORT}}}
users: shared
providers:
  openai: {{api_key: sk-scripted, base_url: "{{fake}}/v1", retries: 0}}
agents: # named like the models of the tests
  - {{name: gpt-6-astra, provider: openai, model: gpt-test}}
  - {{name: gpt-3.5-turbo-instruct, provider: openai, model: gpt-test}}
  - {{name: model, provider: openai, model: gpt-test}}
"""


@contextmanager
def serving(fake: FakeProvider) -> Iterator[None]:
    """Run a server with its own files and database."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "test.yaml"
        path.write_text(CONFIG.replace("{fake}", fake.root_url))
        command = [sys.executable, "manage.py"]
        subprocess.run([*command, "start", "-c", path], cwd=BASE, check=True)
        try:
            yield
        finally:
            subprocess.run([*command, "stop", "-c", path], cwd=BASE, check=True)


def main(folder: str, *options: str) -> int:
    with FakeProvider() as fake, serving(fake):
        tests = [f"tests/api_resources/{name}" for name in TESTS]
        configured = ("-o", "addopts=", "-o", "filterwarnings=")
        plugin = ("-p", "openai_ids")
        return subprocess.run(
            [
                *(sys.executable, "-m", "pytest", *configured, *plugin, *OPTIONS),
                *(*tests, *options),
            ],
            cwd=folder,
            env={
                **os.environ,
                # Their package `tests` hides ours, so the plugin is found beside it.
                "PYTHONPATH": f".{os.pathsep}{Path(__file__).parent}",
                "TEST_API_BASE_URL": f"http://127.0.0.1:{PORT}/v1",
            },
        ).returncode


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
