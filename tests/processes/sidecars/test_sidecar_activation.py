"""Whether a server runs sidecars: those of its start, and those added by an edit."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from django.conf import settings as real_settings

from config.loading import last_valid_copy, loader
from config.sections import Config
from processes.server import server_plan
from processes.sidecar_control import sidecar_activation

NONE = """
agents: [{name: a, provider: p, model: m}]
providers: {p: {kind: openai, api_key: k}}
"""
ONE = f"{NONE}sidecars: [{{name: bridge, command: ./bridge}}]\n"


@pytest.fixture
def load(tmp_path: Path, settings) -> Callable[[str], Config]:
    settings.COULISSE_STATE_DIR = tmp_path
    settings.COULISSE_PROCESSES = frozenset({"web", "sidecars"})
    return lambda text: loader.parse_config(text.encode(), tmp_path / "coulisse.yaml")


def test_server_starts_sidecars_once_it_answers(load) -> None:
    _, sidecars = server_plan.plan_server(load(ONE)).children(
        listening=5, parent_pipe=6, heartbeats=7
    )
    assert sidecars.name == "sidecars"
    assert sidecars.is_needed()
    assert (sidecars.is_required, sidecars.follows_web) == (False, True)
    # They end after the last replies, which may use them, and which they may deliver.
    assert sidecars.outlives_web


def test_server_without_sidecars_has_no_sidecar_process(load) -> None:
    are_needed = sidecar_activation.sidecars_needed(load(NONE))
    assert are_needed is not None
    assert not are_needed()
    last_valid_copy.write_copy(NONE.encode())
    assert not are_needed()
    last_valid_copy.write_copy(ONE.encode())
    assert are_needed()
    last_valid_copy.write_copy(b"\0")
    assert not are_needed()


def test_web_only_server_runs_no_sidecars(load, settings) -> None:
    settings.COULISSE_PROCESSES = frozenset({"web"})
    assert sidecar_activation.sidecars_needed(load(ONE)) is None
    children = server_plan.plan_server(load(ONE)).children(
        listening=5, parent_pipe=6, heartbeats=7
    )
    assert [child.name for child in children] == ["web-1"]


def test_sidecar_process_imports_no_large_packages() -> None:
    code = "import sys, processes.sidecars; print(*sys.modules)"
    loaded = subprocess.run(
        [sys.executable, "-c", code],
        cwd=real_settings.BASE_DIR,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()
    assert not {"agents.config", "django.db.models", "numpy", "mcp"} & set(loaded)
