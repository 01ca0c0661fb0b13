"""A file with four sections that the studio can override, and its overrides."""

import logging
from datetime import UTC, datetime

import pytest

from config import live
from config.errors import (
    ConfigInvalid,
)
from config.models import Override, OverrideVersion
from config.overrides import overridable_entries

FILE = """\
vars: {tone: kind}
providers:
  openai: {api_key: k, base_url: http://localhost:1/v1}
  other: {kind: openai, api_key: k, base_url: http://localhost:1/v1}

agents:
  # The first one.
  - name: ann
    provider: openai   # the cheap one
    model: gpt-a
    preamble: |
      Be ${vars.tone}.

      Be brief.
    judges: [quality]

  # The second one.
  - {name: bob, provider: openai, model: gpt-b}
  - name: cleo
    provider: openai
    model: gpt-c

judges:
  - name: quality
    provider: openai
    model: gpt-j
    rubrics: {clear: It is clear.}

experiments:
  - name: trial
    strategy: split
    variants: [{agent: ann}, {agent: bob}]
"""
BOB = "# mine\nname: bob\nprovider: openai\nmodel: gpt-x # newer\n"
DAN = "name: dan\nprovider: other\nmodel: gpt-d\n"
JUDGE = "name: own\nprovider: openai\nmodel: gpt-j\nrubrics: {brief: It is brief.}\n"
BY = "user:ada"
NOW = datetime(2026, 11, 21, tzinfo=UTC)


@pytest.fixture
def override_file(database, real_sections, file, caplog):
    """The file and empty tables, which are emptied again afterwards."""
    caplog.set_level(logging.INFO)
    delete_overrides()
    file.write_text(FILE)
    (file.parent / ".coulisse").mkdir()
    yield
    delete_overrides()


@pytest.fixture(autouse=True)
def _state(settings, tmp_path):
    settings.COULISSE_STATE_DIR = tmp_path / ".coulisse"


def delete_overrides():
    Override.objects.all().delete()
    OverrideVersion.objects.all().delete()


@pytest.fixture
def agents():
    return overridable_entries.get_section("agents")


def models():
    section = overridable_entries.get_section("agents")
    found = live.current().get(section)
    return {name: agent.model for name, agent in found.items()}


def diff(section, name):
    return overridable_entries.get_entry(section, name).diff


def labels():
    section = overridable_entries.get_section("agents")
    entries = overridable_entries.list_entries(section)
    return {entry.name: entry.label for entry in entries}


def refusal(function, *args, **kwargs):
    with pytest.raises(ConfigInvalid) as caught:
        function(*args, **kwargs)
    return str(caught.value)


@pytest.fixture
def watcher():
    """A watcher without a thread; the tests call `poll`."""
    live.load_at_start()
    return live.ConfigWatcher()
