"""Every regular expression of the product takes time in proportion to its text.

`re` tries each way to match, which takes years for some patterns and texts, and blocks
the interpreter meanwhile. So each use of it is in one of three lists of
`pattern_cases`: patterns for texts of others, each with the texts that it is slowest
on; patterns that only see the operator's files; and those measured by tests of their
own. RE2 and pydantic (Rust's `regex`) are linear by design and need no entry. A use in
no list fails.
"""

import ast
import importlib
import re
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress

import pytest

from core.errors import CoulisseError
from tests import growth
from tests.patterns.pattern_cases import ELSEWHERE, FUNCTIONS, OPERATORS, PROVEN, Use
from tests.test_architecture import ROOT, modules


def uses() -> Iterator[str]:
    """Yield where the product calls `re`, by module and name."""
    for module, path in modules().items():
        tree = ast.parse(path.read_text())
        for parent, name in _named(tree):
            for call in ast.walk(parent):
                if _is_of_re(call):
                    yield f"{module}.{name}"


def _named(tree: ast.Module) -> Iterator[tuple[ast.AST, str]]:
    """Yield the statements of a module and of its classes, and what each defines."""
    waiting: list[ast.stmt] = [*tree.body]
    while waiting:
        match waiting.pop():
            case ast.ClassDef(body=body):
                waiting += body
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) as found:
                yield found, name
            case ast.Assign(targets=[ast.Name(id=name)]) as found:
                yield found, name
            case ast.AnnAssign(target=ast.Name(id=name)) as found:
                yield found, name
            case other:
                yield other, "(unnamed)"


def _is_of_re(node: ast.AST) -> bool:
    return (
        isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Name)
        and node.value.id == "re"
        and node.attr in {*USES, "compile", "Scanner", "template"}
    )


USES = ("findall", "finditer", "fullmatch", "match", "search", "split", "sub", "subn")


def numbered(names: Iterator[str]) -> set[str]:
    """Return names, with numbers where one comes several times."""
    counts = Counter(names)
    return {
        name if count == 1 else f"{name}#{n}"
        for name, count in counts.items()
        for n in range(count)
    }


SEVERAL = {"core.text.time_parsing._parse"}
"""Functions with more than one anchored match of digits, measured together."""


def test_every_pattern_is_proven_or_reads_only_files():
    found = {
        name.partition("#")[0] if name.partition("#")[0] in SEVERAL else name
        for name in numbered(uses())
    }
    found = {name for name in found if name.rpartition(".")[0] not in ELSEWHERE}
    listed = {*PROVEN, *OPERATORS}
    assert sorted(found - listed) == [], "add its worst texts to PROVEN, or use re2"
    assert sorted(listed - found) == [], "these are gone: remove them from the lists"


def test_tests_of_patterns_in_other_files_exist():
    assert all((ROOT / path).is_file() for path in ELSEWHERE.values())


def test_patterns_are_compiled_only_by_re():
    """Django's and pydantic's ways to `re` are not used, nor `re` by another name."""
    others = re.compile(
        r"from re import|import re as|RegexValidator|re_path|python-re|__i?regex\b"
        r"|^import regex|fnmatch|URLValidator|EmailValidator|EmailField"
    )
    found = [str(p) for p in modules().values() if others.search(p.read_text())]
    assert found == []


def _run(name: str, use: str | Use) -> Use:
    if not isinstance(use, str):
        return _silent(use)
    module, _, attribute = name.rpartition(".")
    pattern = getattr(importlib.import_module(module), attribute)
    if use == "all":
        return lambda text: [None for _ in pattern.finditer(text)]
    method: Use = getattr(pattern, use)
    return method


def _silent(use: Use) -> Use:
    """Return a function that refuses a text without a word."""

    def run(text: str) -> None:
        with suppress(CoulisseError, ValueError):
            use(text)

    return run


@pytest.mark.parametrize("name", sorted({**PROVEN, **FUNCTIONS}))
def test_time_grows_with_the_text(name):
    case = {**PROVEN, **FUNCTIONS}[name]
    run = _run(name, case.use)
    slow = [
        text
        for text in case.texts
        if not growth.is_linear(
            run, *(("", text, "") if isinstance(text, str) else text)
        )
    ]
    assert slow == []


def test_growth_check_detects_quadratic_time():
    quadratic = re.compile("a*b")
    assert not growth.is_linear(quadratic.search, "", "a", "")
    assert growth.is_linear(quadratic.match, "", "a", "")
