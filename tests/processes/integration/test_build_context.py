"""The build context of the image: the program, and no state and no secret."""

import os
import shutil
import subprocess
import sys
import sysconfig
import tomllib
from pathlib import Path

import pytest
from django.conf import settings
from docker.utils.build import exclude_paths

STATE = (
    ".env",
    ".env.production",
    ".coulisse/coulisse-memory.db",
    ".coulisse/secrets.env",
    "app.sqlite3",
    "backup.db",
    "backup.db-wal",
    "coulisse.log",
    "coulisse.team.yaml",
    "coulisse.yaml",
    "data/.coulisse/secrets.env",
    "secrets.env",
    "tls.key",
    "tls.pem",
)
ADDED_BY_THE_CLIENT = {".dockerignore", "Dockerfile"}
"""They describe the build; `COPY` of what is listed does not take them."""
USE_ALL = """
import importlib, pkgutil, sys
import django
django.setup()
from django.core.management import call_command
call_command("init")
call_command("check")
for name in sys.argv[1:]:
    for module in pkgutil.walk_packages([name], f"{name}."):
        # `runserver` is for developers: the image has no Daphne.
        if module.name.split(".")[-1] not in ("__main__", "runserver"):
            importlib.import_module(module.name)

import asyncio
from django.contrib.staticfiles import finders
from providers.embeddings import minilm
from storages.backends.s3 import S3Storage
assert asyncio.run(minilm.embed_documents(["a text"])).any()
keys = {"access_key": "a", "secret_key": "b", "region_name": "eu-west-1"}
assert S3Storage(bucket_name="b", **keys).connection
assert finders.find("django_ace/ace/mode-yaml.js")
assert not finders.find("django_ace/ace/mode-php.js")
import opentelemetry.exporter.otlp.proto.grpc.trace_exporter
"""


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the clone with state and secrets at the top and in every directory."""
    root = tmp_path_factory.mktemp("clone") / "coulisse"
    skipped = shutil.ignore_patterns(".git", ".venv", ".clients", ".*cache", ".hypo*")
    shutil.copytree(settings.BASE_DIR, root, ignore=skipped)
    folders = [path for path in root.iterdir() if path.is_dir()]
    for folder in (root, *folders, root / "config/starters"):
        for name in STATE:
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("OPENAI_API_KEY=sk-planted")
    for name in ("id_rsa", "my-notes.txt", "state/anything"):
        (root / name).parent.mkdir(exist_ok=True)
        (root / name).write_text("sk-planted")
    return root


@pytest.fixture(scope="module")
def context(tree: Path) -> set[str]:
    """The files that `docker build` sends."""
    patterns = (tree / ".dockerignore").read_text().splitlines()
    lines = [line for line in patterns if line and not line.startswith("#")]
    listed = exclude_paths(str(tree), lines)
    return {name for name in listed if (tree / name).is_file()} - ADDED_BY_THE_CLIENT


def test_context_has_no_state_and_no_secret(tree: Path, context: set[str]) -> None:
    planted = {name for name in context if b"sk-planted" in (tree / name).read_bytes()}
    assert planted == set()
    assert not {name for name in context if "__pycache__" in name}


def test_context_has_what_the_wheel_has(tree: Path, context: set[str]) -> None:
    project = tomllib.loads((tree / "pyproject.toml").read_text())
    included = project["tool"]["hatch"]["build"]["targets"]["wheel"]["only-include"]
    listed = subprocess.run(
        ["git", "ls-files", *included],
        cwd=settings.BASE_DIR,
        capture_output=True,
        check=True,
        text=True,
    )
    assert set(listed.stdout.split()) - context == set()
    others = {name for name in context if name.split("/")[0] not in included}
    scripts = {f"deploy/{name}" for name in ("coulisse", "health", "prune_packages.py")}
    assert others == {*scripts, "requirements.txt"}


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The packages of this environment, pruned as those of the image."""
    root = tmp_path_factory.mktemp("packages") / "site-packages"
    shutil.copytree(sysconfig.get_path("purelib"), root, copy_function=link_or_copy)
    script = settings.BASE_DIR / "deploy/prune_packages.py"
    subprocess.run([sys.executable, script, root], check=True)
    return root


def link_or_copy(source: str, target: str) -> None:
    try:
        os.link(source, target)
    except OSError:  # Another file system.
        shutil.copy2(source, target)


def test_program_runs_from_the_context_and_the_pruned_packages(
    tree: Path, context: set[str], packages: Path, tmp_path: Path
) -> None:
    for name in context:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(tree / name, tmp_path / name)
    apps = sorted(path.parent.name for path in tmp_path.glob("*/__init__.py"))
    done = subprocess.run(
        [sys.executable, "-S", "-c", USE_ALL, *apps],
        cwd=tmp_path,
        env={
            "DJANGO_SETTINGS_MODULE": "coulisse_site.settings",
            "OPENAI_API_KEY": "k",
            "PYTHONPATH": str(packages),
        },
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
