"""`coulisse import`, with a configuration of its own."""

import json
import uuid
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command

from access.users import identity
from config import live
from tasks.models import Task

YAML = """
providers: {openai: {api_key: x}}
memory: {user_state: {embed_with: {provider: hash}}}
agents:
  - {name: writer, provider: openai, model: gpt-test}
  - {name: loner, provider: openai, model: gpt-test, threads: own, memory: false}
"""


@pytest.fixture
def yaml(tmp_path: Path) -> Path:
    path = tmp_path / "coulisse.yaml"
    path.write_text(YAML)
    return path


@pytest.fixture
def name() -> str:
    return f"importer-{uuid.uuid4()}"


@pytest.fixture
def user_id(name: str):
    return identity.derive_user_id(name)


@pytest.fixture
def run_import(yaml: Path, monkeypatch):
    """Run the command; return its report as JSON data."""
    monkeypatch.setattr(live, "_current", live.read_effective(yaml))

    def run(*arguments: Any) -> dict[str, Any]:
        out = StringIO()
        words = [str(each) for each in arguments]
        call_command("import", *words, "--json", "-c", str(yaml), stdout=out)
        return json.loads(out.getvalue())

    yield run
    # Other tests run all tasks that are due.
    Task.objects.filter(agent__in=["writer", "loner"]).delete()
