import json
import re
from pathlib import Path

import pytest
from django.conf import settings
from django.core.management import call_command
from jsonschema import Draft202012Validator
from ruamel.yaml import YAML

from config.loading import loader
from config.starters import starter_file

pytestmark = pytest.mark.usefixtures("real_sections")

EXAMPLES = sorted((Path(settings.BASE_DIR) / "examples").glob("*/*.yaml"))
SHIPPED = [*EXAMPLES, *sorted(starter_file.TEMPLATES.glob("*.yaml"))]


@pytest.fixture(params=SHIPPED, ids=lambda path: f"{path.parent.name}/{path.name}")
def shipped(request, monkeypatch):
    for name in re.findall(r"\$\{([A-Z_]+)\}", request.param.read_text()):
        monkeypatch.setenv(name, "a-dummy-secret")
    return request.param


def test_examples_exist():
    assert len(EXAMPLES) >= 18


def test_examples_load(shipped):
    assert loader.load_file(shipped).values["agents"]


def test_examples_match_the_schema(shipped, capsys):
    call_command("schema")
    validator = Draft202012Validator(json.loads(capsys.readouterr().out))
    document = YAML(typ="safe", pure=True).load(shipped)
    assert [error.message for error in validator.iter_errors(document)] == []


def test_examples_contain_no_keys(shipped):
    # Only at the start of a word: "desk-warm" contains "sk-".
    assert not re.search(r"\bsk-", shipped.read_text())
