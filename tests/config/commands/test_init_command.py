import os
import re
import stat

import pytest
from django.core.management import CommandError, call_command

from access.config import USERS
from config import sections
from config.loading import loader

pytestmark = pytest.mark.usefixtures("real_sections")


@pytest.fixture(autouse=True)
def _no_keys(monkeypatch):
    for name in ("ANTHROPIC_API_KEY", "OPENAI_API_KEY"):
        monkeypatch.delenv(name, raising=False)


def only_agent(file):
    (agent,) = loader.load_file(file).values["agents"].values()
    return agent.name, agent.provider, agent.model


def test_init_uses_local_model_without_a_key(file, capsys):
    call_command("init")
    assert only_agent(file) == ("assistant", "local", "smollm2-135m")
    written, hint = capsys.readouterr().out.splitlines()
    assert written == "wrote coulisse.yaml: one agent on a small local model"
    assert "ANTHROPIC_API_KEY" in hint


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        (["OPENAI_API_KEY"], ("assistant", "openai", "gpt-4o-mini")),
        (
            ["ANTHROPIC_API_KEY", "OPENAI_API_KEY"],
            ("assistant", "anthropic", "claude-sonnet-4-5-20250929"),
        ),
    ],
)
def test_init_uses_the_provider_with_a_key(file, monkeypatch, keys, expected):
    for name in keys:
        monkeypatch.setenv(name, "sk-test")
    call_command("init")
    assert only_agent(file) == expected
    assert loader.load_file(file).get(USERS).mode == "shared"
    assert "sk-test" not in file.read_text()


def test_init_ignores_an_empty_key(file, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "")
    call_command("init")
    assert only_agent(file)[1] == "local"


def test_init_names_the_schema_on_the_first_line(file):
    call_command("init")
    assert file.read_text().splitlines()[0] == (
        "# yaml-language-server: $schema=./coulisse.schema.json"
    )


def test_init_writes_to_the_given_path(file):
    call_command("init", config="mine.yaml")
    assert (file.parent / "mine.yaml").exists()
    assert not file.exists()


def test_init_keeps_an_existing_file(file):
    file.write_text("mine")
    with pytest.raises(CommandError, match="already exists; pass --force"):
        call_command("init")
    assert file.read_text() == "mine"


def test_init_force_overwrites_and_keeps_a_symlink(file):
    (file.parent / "real.yaml").write_text("mine")
    file.symlink_to("real.yaml")
    call_command("init", force=True)
    assert file.is_symlink()
    assert only_agent(file)[0] == "assistant"


def test_init_writes_one_file_readable_by_others(file):
    call_command("init")
    assert stat.S_IMODE(file.stat().st_mode) == 0o644
    assert os.listdir(file.parent) == ["coulisse.yaml"]


@pytest.mark.parametrize(
    ("path", "expected"), [("no/c.yaml", "create it first"), (".", "name a file")]
)
def test_init_refuses_an_unwritable_path(file, path, expected):
    with pytest.raises(CommandError, match=expected):
        call_command("init", config=path)


@pytest.fixture
def tour(file, monkeypatch):
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-a")
    monkeypatch.setenv("OPENAI_API_KEY", "sk-o")
    call_command("init", from_example=True)
    return file


def test_tour_loads(tour):
    assert len(loader.load_file(tour).values["agents"]) > 3


def test_tour_shows_the_registered_sections(tour):
    text = tour.read_text()
    for key in sections.registered_sections():
        assert re.search(rf"^{key}:|`{key}:", text, re.MULTILINE), key


def test_tour_shows_every_agent_and_provider_field(tour):
    for key in ("agents", "providers", "server"):
        schema = sections.registered_sections()[key].adapter.json_schema()
        definitions = schema.get("$defs", {"": schema}).values()
        for field, about in (f for d in definitions for f in d["properties"].items()):
            if "Not available" not in about.get("description", ""):
                assert re.search(rf"\b{field}:", tour.read_text()), field
