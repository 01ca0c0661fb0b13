"""Rules of the code base: layers, the async boundary, assets."""

import ast
import functools
import os
import re
import subprocess
import sys
import tomllib
from io import StringIO
from pathlib import Path

import grimp
import pytest
from django.core.management import call_command

from agents.config import AGENTS
from config.loading import loader
from tests import tiers

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"][
    "root_packages"
]
EXAMPLES = sorted((ROOT / "examples").glob("**/*.y*ml"))

DATABASE_CROSSINGS = {
    # It runs functions on threads that own database connections.
    "database.database_executor",
    # A function for the executor stands beside the view that uses it.
    "gateway.health",
}
ASYNC_SIDE = ("providers", "agents.loop", "turns.flow", "gateway")
"""Packages of async code, also where a module defines none."""


def modules() -> dict[str, Path]:
    return {
        ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(
            ".__init__"
        ): path
        for package in PACKAGES
        for path in sorted((ROOT / package).rglob("*.py"))
    }


@functools.cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


@functools.cache
def imports(path: Path) -> frozenset[str]:
    """Return all a file imports: modules, and names as if they were modules."""
    found = set()
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module)
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return frozenset(found)


def touches_tables(imported: frozenset[str]) -> set[str]:
    return {
        name
        for name in imported
        if name.startswith("django.db")
        or name.split(".")[-1] == "models"
        or ".models." in name
    }


@functools.cache
def is_async(path: Path) -> bool:
    return any(
        isinstance(node, ast.AsyncFunctionDef) for node in ast.walk(tree_of(path))
    )


def async_modules() -> dict[str, Path]:
    return {
        name: path
        for name, path in modules().items()
        if name not in DATABASE_CROSSINGS
        and (
            is_async(path)
            or any(name == side or name.startswith(f"{side}.") for side in ASYNC_SIDE)
        )
    }


def test_async_code_imports_no_models():
    guilty = {
        name: touched
        for name, path in async_modules().items()
        if (touched := touches_tables(imports(path)))
    }
    assert guilty == {}


def test_async_modules_are_found():
    found = set(async_modules())
    assert {
        "providers.client",
        "agents.loop",
        "turns.flow",
        "turns.structured_output.reply_format",
        "gateway.api",
        "gateway.openai.turn_response",
        "gateway.asgi.handler",
    } <= found
    assert touches_tables(imports(ROOT / "memory/transcript/message_store.py"))
    assert touches_tables(imports(ROOT / "database/database_executor.py"))


def table_modules() -> set[str]:
    """Return the modules that read or write tables themselves."""
    return {
        name for name, path in modules().items() if touches_tables(imports(path))
    } - DATABASE_CROSSINGS


def test_table_functions_are_called_through_the_executor():
    tables = table_modules()
    called = [
        f"{name}: {function}"
        for name, path in async_modules().items()
        if (known := names_of(tables, path))
        for function in calls(path)
        if function.split(".")[0] in known
    ]
    assert called == []


def test_async_code_calls_no_manager():
    called = [
        f"{name}: {function}"
        for name, path in async_modules().items()
        for function in calls(path)
        if ".objects." in function
    ]
    assert called == []


def calls(path: Path) -> list[str]:
    """Return the calls in a file, as source text."""
    tree = ast.walk(tree_of(path))
    return [ast.unparse(node.func) for node in tree if isinstance(node, ast.Call)]


def names_of(tables: set[str], path: Path) -> set[str]:
    """Return the names by which a file knows these modules."""
    return {name.split(".")[-1] for name in imports(path) & tables}


def test_table_modules_are_found():
    assert {
        "memory.user_data.erasure",
        "memory.user_data.export",
        "memory.facts.fact_store",
        "memory.recall.context.turn_context",
        "memory.transcript.message_store",
        "memory.extraction.extraction_tasks",
        "memory.recall.search",
    } <= table_modules()
    assert {"fact_store", "search"} <= names_of(
        table_modules(), ROOT / "turns/tools/memory_tools.py"
    )


def test_health_view_queries_through_the_executor():
    tree = tree_of(ROOT / "gateway/health.py")
    for node in tree.body:
        if isinstance(node, ast.AsyncFunctionDef):
            assert "connection" not in ast.unparse(node)


def test_asgiref_converters_are_not_used():
    for name, path in modules().items():
        text = path.read_text()
        assert "import sync_to_async" not in text, name
        assert "import async_to_sync" not in text, name


def test_layers_import_only_downwards():
    ran = subprocess.run(
        [Path(sys.executable).with_name("lint-imports"), "--no-cache"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout


def test_every_package_is_in_the_import_contract():
    graph = grimp.build_graph(*PACKAGES, cache_dir=None)
    assert set(PACKAGES) <= {module.split(".")[0] for module in graph.modules}
    present = {path.parent.name for path in ROOT.glob("*/__init__.py")}
    assert present - {"tests", "bench"} == set(PACKAGES)


def test_no_imports_inside_functions():
    hidden = [
        f"{name}:{node.lineno}"
        for name, path in modules().items()
        for function in ast.walk(tree_of(path))
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef)
        # Where Django has what leads to models imported, and not before.
        and (path.name, function.name) != ("apps.py", "ready")
        for node in ast.walk(function)
        if isinstance(node, ast.ImportFrom)
        and (node.module or "").split(".")[0] in PACKAGES
    ]
    assert hidden == []


@pytest.mark.usefixtures("database")
def test_every_model_has_its_migration():
    output = StringIO()
    call_command("makemigrations", "--check", "--dry-run", stdout=output)
    assert output.getvalue() == "No changes detected\n"


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_every_example_loads(path, monkeypatch):
    for name in re.findall(r"\$\{(\w+)\}", path.read_text()):
        if name not in os.environ:
            monkeypatch.setenv(name, "sk-dummy")
    assert loader.load_file(path).get(AGENTS)


def test_examples_exist():
    assert EXAMPLES


def test_no_test_is_skipped():
    # A `skipif` says what must be installed; the others only hide a failure. Whether a
    # browser is there is known once one was tried to be started.
    marker = re.compile(r"\bpytest\.(mark\.)?(skip|xfail|importorskip)\b")
    browser = ROOT / "tests" / "browser"
    tests = sorted(
        path for path in (ROOT / "tests").rglob("*.py") if browser not in path.parents
    )
    guilty = [str(path) for path in tests if marker.search(path.read_text())]
    assert guilty == []


HOSTS = re.compile(
    r"(unpkg|jsdelivr|cdnjs|cloudflare|googleapis\.com/(css|ajax)|gstatic|bootstrapcdn"
    r"|skypack|esm\.sh|jquery\.com|fontawesome)",
    re.IGNORECASE,
)


def served() -> list[Path]:
    endings = {".html", ".css", ".js", ".svg"}
    folders = (*PACKAGES, "static", "templates")
    return [
        path
        for folder in folders
        for path in sorted((ROOT / folder).rglob("*"))
        if path.suffix in endings
    ]


def test_tiers_name_existing_tests():
    for node_id in (*tiers.SLOW, *tiers.LONGEST, *tiers.SQLITE_ONLY):
        path, _, name = node_id.partition("::")
        assert (ROOT / path).exists(), f"{path}, in tests/tiers.py, does not exist"
        assert f"def {name}" in (ROOT / path).read_text() if name else True, node_id


def test_pages_load_only_local_resources():
    for path in served():
        text = path.read_text()
        assert not HOSTS.search(text), path
        assert not re.search(r"(src|href)=[\"']?(https?:)?//", text), path
        assert not re.search(r"(@import|url\()\s*[\"']?(https?:)?//", text), path
