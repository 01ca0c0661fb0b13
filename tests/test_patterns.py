"""Every regular expression of the product takes time in proportion to its text.

`re` tries each way to match, which takes years for some patterns and texts, and holds
the interpreter while it does. So each use of it is in one of three lists here: patterns
that see what others send, each with the texts it is slowest on; patterns that only see
the operator's files; and those measured by tests of their own. RE2 and pydantic
(Rust's `regex`) are linear by design and need no entry. A use in no list fails.
"""
# ruff: noqa: RUF001  words of many scripts

import ast
import importlib
import re
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import time
from typing import Any

import pytest

from access import dollars, instants
from config import document, lines, masks, placeholders, spelling
from core import loose_json, tool_names
from core.errors import CoulisseError
from core.request_ids import TAKEN
from judges import answers
from mcp_bridge import results
from memory import lexicon, quotes, suspicion, wording
from providers import word_hash
from tests import growth
from tests.test_architecture import ROOT, modules

Use = Callable[[str], Any]
Text = tuple[str, str, str]
"""What a text begins with, what is repeated in it, and what it ends with."""


@dataclass(frozen=True)
class Case:
    """How a pattern is used, and the texts it is slowest on."""

    use: str | Use
    """A method of the pattern, or a function that uses it."""
    texts: tuple[str | Text, ...]


def case(use: str | Use, *texts: str | Text) -> Case:
    return Case(use, texts)


WORDS = ("a", " ", "1", "1.1,", "中", "é", "\u0300", "'s", "n't", "-", "🎉", "_")
"""What finds the branches of patterns that take texts apart."""

PROVEN = {
    "access.dollars.read": case(dollars.read, "1", ("1.", "1", "x"), "-"),
    "access.identity.CANONICAL_UUID": case("fullmatch", "a", "00000000-"),
    "access.instants._length": case(instants._length, "1", "h", ("1", " ", "h")),
    "access.instants._at": case(
        lambda text: instants._at(text, time()), "2020-01-01", ("2020-01-01T", "1", "")
    ),
    "access.names.HEXADECIMAL": case("fullmatch", "a", "-", ("", "a", "x")),
    "access.tokens.get": case(lambda text: re.fullmatch(r"[0-9a-f]{8,32}", text), "a"),
    "config.headers.NAME": case("fullmatch", "a", ("", "a", ":")),
    "config.headers.UNSENDABLE": case("search", "a"),
    "config.lines.BREAK": case("all", "a", "\r\n", "\r", "\u2028"),
    "config.lines.plain": case(lines.plain, "\r", "\r\n", "a"),
    "config.lines.dedented": case(lambda text: lines.dedented(text, 9), " ", " \n"),
    "config.masks.TOKEN": case(masks._pieces, "${", "${}", "$", ("${", "a", "\n")),
    "config.masks.COMMENT": case("all", "#", " #", "\n", "#\n"),
    "config.masks.COMMENTED_FIELD": case(
        "match",
        *(("#", "-", ""), ("#", "-a", ""), ("#k: ", "a", " x"), ("#k: a", " ", "x")),
        *(("#k:", " ", ""), ("#", "'", ""), ("#k: ", "a #", "\n")),
    ),
    "config.placeholders.TOKEN": case(
        placeholders.hide, "${", "$${", "${a}", "$${a}", ("${", "a", ""), "$", "$${a"
    ),
    "config.placeholders.OPENING": case("all", "$", "${", "$${"),
    "config.placeholders._hidden_token": case(
        lambda text: [*placeholders.hidden_spans(placeholders._hide(text))],
        *("${", "$${", "${a}", "$${a}", ("${", "a", ""), "$", "a"),
    ),
    "config.placeholders.HIDDEN_OPENING": case("all", "\U00100024", "a"),
    "config.placeholders.NAME": case(
        "fullmatch", "vars.", "a", ("", "a", "!"), "a:-", ("a:-", "b", "\n")
    ),
    "config.placeholders.ENVIRONMENT_NAME": case("fullmatch", "a", ("", "a", "!")),
    "config.placeholders._resolve": case(
        lambda text: re.sub(r"\n(?=[^\n])", "\n ", text), "\n", "\na"
    ),
    "config.secret_values.SECRET_NAME": case("search", "pas", "a", "signatur"),
    "config.shapes._choices": case(
        lambda text: re.findall("'([^']*)'", text), "'", ("'", "a", ""), "a"
    ),
    "config.shapes._is_secret": case(lambda text: re.split(r"[_-]", text), "_", "a"),
    "config.splicing.MARKER": case("search", "-", "---", "---\n", "%", "..."),
    "config.splicing.PROPERTIES": case("match", "\t", " &", " &a", (" &a", " ", "b")),
    "config.splicing.DOCUMENT_END": case("search", ".", "\n..", "a"),
    "core.storable.UNSTORABLE": case("all", "a", "\0"),
    "config.tree.HALF": case("search", "a", "😀"),
    "core.loose_json.FENCED": case(
        lambda text: [*loose_json.readings(text)],
        "`",
        "```",
        "```json",
        ("```", "`", ""),
    ),
    "core.private_hosts.NUMBER": case("fullmatch", "1", "0x", ("0x", "a", "!")),
    "core.request_ids.TAKEN": case(lambda t: TAKEN.fullmatch(t.encode()), "a", "é"),
    "core.tool_names.UNSAFE": case(tool_names.safe, "a", "é"),
    "gateway.authentication.SECRET": case(
        "fullmatch", "sk-coulisse-", ("sk-coulisse-", "a", "!")
    ),
    "gateway.image_urls.IMAGE_HEAD": case("match", "a", "data:image/"),
    "gateway.image_urls.SCHEME": case("match", "a", "1", "a:"),
    "gateway.image_urls.HOST": case(
        "fullmatch", "a", "a.", "[", ("[", ":", ""), ("a:", "1", ""), ("", "a", "!")
    ),
    "gateway.hosts.PORT": case("all", ":", "1", (":", "1", "x"), ":1"),
    "judges.answers.FRACTION": case(
        "fullmatch",
        *(" ", "1", "1 ", ("1", " ", "x"), ("1 /", " ", "x"), ("1", "1", "x")),
        *(("1.", "1", "x"), ("1 out of 1", "1", "x"), ("1 out of 1", " ", "x")),
    ),
    "judges.answers.plain": case(answers.plain, "_", " ", "- ", "a"),
    "mcp_bridge.challenge.PARAMETER": case(
        "all", "scope=", 'scope="', "scope=a", ('scope="', "a", ""), "-scope=", "a"
    ),
    "mcp_bridge.config.SERVER_NAME": case("fullmatch", "a"),
    "mcp_bridge.results._type": case(results._type, "a", "!", " "),
    "memory.dates.DAY": case("fullmatch", "1", "1111-11-11"),
    "memory.fact_ids.PATTERN": case("fullmatch", "a", "fact_"),
    "memory.intake.CONTROLS": case("all", "a", "\x01"),
    "memory.lexicon.PIECE": case(
        "all", *WORDS, ("", "1", "a"), ("", "1.1,", "中"), "🇦", "ऀ々", "1中", "11a"
    ),
    "memory.lexicon.PLAIN": case("all", "a", "1", "1.", ("", "1", "a"), "1a", "1,1a"),
    "memory.lexicon.THOUSANDS": case(
        "fullmatch", "1", "1,111", ",111", ("1", ",111", "1")
    ),
    "memory.lexicon.AFTER_QUESTION": case(lexicon.is_question, "!", "?!"),
    "memory.lexicon._number": case(lexicon._number, "1", "1.", "."),
    "memory.lexicon._pairs": case(lexicon._pairs, "中", "ア", "가"),
    "memory.lexicon._is_word": case(lexicon._pairs, "中", "ア"),
    "memory.obfuscation.GAP": case("all", " ", "\x01", "   a", "a"),
    "memory.obfuscation.SPACED": case(
        "all", *WORDS, "a ", "a  ", "a b c ", "a b c de ", ("", "a ", "bc"), "a...."
    ),
    "memory.obfuscation.BETWEEN": case("all", *WORDS, "a "),
    "memory.obfuscation.WIDTHLESS": case("all", "a", "\u200b"),
    "memory.obfuscation.WORD": case("all", *WORDS, "a1"),
    "memory.passages.SUBJECT": case(
        "match", " ", "the ", ("the", " ", ""), ("user", " ", "")
    ),
    "memory.quotes.UNSPACED": case("search", *WORDS),
    "memory.suspicion.INVISIBLE": case("search", *WORDS),
    "memory.suspicion.SENTENCE_END": case(
        suspicion.SENTENCE_END.split, ". ", ".", "。", "\n"
    ),
    "memory.wording.HAS_UNSPACED": case("search", *WORDS),
    "memory.wording.PIECE": case(
        "all", *WORDS, " -1", "1:", "1111-11-", "NOT", "c++", "11.1."
    ),
    "memory.wording.THOUSANDS": case("fullmatch", "1", "1,111", ("1", ",111", "1")),
    "memory.wording.PAST": case("search", *WORDS, "wa", "use", "had "),
    "memory.wording.PUNCTUATION": case(
        "all", *WORDS, ".", "--a", "''", "-1", ("a", ".", "a"), ("a", "-", "a"), ".-"
    ),
    **{
        f"memory.wording.CONTRACTIONS#{n}": case(
            lambda text, n=n: wording.CONTRACTIONS[n][0].sub("", text),
            *WORDS,
            "can",
            "won'",
            "n'",
            "qu'",
            "1s",
            "left-",
        )
        for n in range(8)
    },
    **{
        f"memory.wording.UNSPACED_FORMS#{n}": case(
            lambda text, n=n: wording.UNSPACED_FORMS[n][0].sub("", text),
            *(
                "用户",
                "ユーザー",
                "没",
                "では",
                "じゃない",
                "なくなった",
                "ている",
                "ま",
                "的",
            ),
        )
        for n in range(9)
    },
    "providers.anthropic_body.VERSION_IN_NAME": case(
        "search", "claude-", "claude-a", ("claude-", "a", ""), ("claude-", "1", "")
    ),
    "providers.anthropic_body.UNUSUAL_IN_ID": case("all", "a", "!"),
    "providers.anthropic_body.DATA_URL": case(
        "match",
        *("data:", ("data:", "a", ""), ("data:a/", "a", ""), ("data:a/a", ";a", "")),
        *(("data:a/a;", "a", ""), ("data:a/a", ";", ""), ("data:a/a;base64,", "a", "")),
    ),
    "providers.embedders.UNWRITABLE": case("all", "a", "\0"),
    "providers.openai.STRICT_GEMINI": case("search", "gemini-", "a"),
    "providers.tool_pictures.HEAD": case(
        "match",
        *("data:", ("data:", "a", ""), ("data:a/", "a", ""), ("data:a/a", ";a", "")),
        *(("data:a/a;", "a", ""), ("data:a/a", ";", "")),
    ),
    "providers.word_hash.TOKEN": case("all", *WORDS, "aé", "中a"),
    "smoke.pages.PREFIX": case("fullmatch", "a"),
    "tasks.task_ids.WRITTEN": case("fullmatch", "a", "task-", "-"),
    "tasks.templates.PLACE": case(
        "all", "{", "{{", "{{a", "{{a}", ("{{", "a", ""), "{{{a}}"
    ),
    "telemetry.drawing.UNPRINTABLE": case("all", "a", "\x01", "\x01a"),
    "telemetry.turn_ids.WRITTEN": case("fullmatch", "a", "chatcmpl-", "-"),
    "turns.language.WELL_FORMED": case("fullmatch", "a", "a-", ("", "a-", "!"), "-"),
}
"""Patterns that see what clients, models, tools, pages of others or forms send."""

OPERATORS = {
    "access.user_namespace.PATTERN",  # secrets.env
    "agents.skill_directory.NAME",  # names of directories
    "agents.skill_text.HEAD",  # SKILL.md
    "config.starter.comments",  # the starters of the package
    "core.entropy.HEX",  # secrets of coulisse.yaml
    "core.entropy.WORD",  # secrets of coulisse.yaml
    "demo.dialogues.PLACE",  # the demo's own texts
    "mcp_bridge.config._web_address",  # coulisse.yaml, one character class
    "providers.config.clean_url",  # coulisse.yaml, disjoint character classes
    "studio.description._refusals",  # the studio's own addresses
}
"""Patterns that only see the operator's own files, or texts of the package."""

ELSEWHERE = {
    "core.redaction": "tests/core/test_redaction.py",
}
"""Modules whose patterns have tests of their own."""


def known(doc_of: str) -> Use:
    """Return what reads and masks a YAML with a text in it."""

    def read(text: str) -> None:
        doc = document.of(doc_of.format(text).encode())
        masks.of.__wrapped__(doc)

    return read


RARE = "".join(map(chr, range(0x4E00, 0x4E00 + 150)))
"""Each character is less than a hundredth of the text, so difflib compares them all."""

FUNCTIONS: dict[str, Case] = {
    "suspicion.why_held": case(
        lambda text: suspicion.why_held(text, text),
        *("https://", "https://a", "ignore ", "forget x ", "<system", "http://x "),
        *("a. ", "你。", "![", "i g n o r e ", "ⅰ", "\u0300", "prefers replies "),
    ),
    "suspicion.is_about_assistant": case(
        suspicion.is_about_assistant, "ai ", "as an ai "
    ),
    "suspicion.without_orders": case(
        suspicion.without_orders, "https://", "a. ", "。", "i g n. ", "あなたは。"
    ),
    "quotes.fold": case(quotes.fold, "a", "ﷺ", "\u0300"),
    "quotes.is_from": case(
        lambda text: quotes.is_from("a" * (len(text) // 2) + "b", text), "a", "ab"
    ),
    "wording.fold": case(wording.fold, *WORDS, "ﷺ"),
    "wording.read": case(wording.read.__wrapped__, *WORDS, "1 may 2020 ", "not ", "没"),
    "lexicon.terms": case(lexicon.terms, *WORDS, "ﷺ"),
    "word_hash.tokens": case(lambda text: [*word_hash.tokens(text)], *WORDS, "ﷺ"),
    "loose_json.readings": case(
        lambda text: [*loose_json.readings(text)], "{", "[", "{}", "[]", '{"a":', "```{"
    ),
    "spelling.did_you_mean": case(
        lambda text: spelling.did_you_mean(text, [text[::-1]]), RARE, "a"
    ),
    "config of placeholders": case(
        known('a: "{}"\n'), "${{", "$${{", "${{A}}", "${{vars.a}}", ("${{A", ":-", "}}")
    ),
    "config of comments": case(
        known("a: b\n#{}\n"), "-", "# ", " #", ("k: ", "a", " #")
    ),
    "config of secrets": case(
        lambda text: masks._finder(text.split()).search(text), "secretvalue ", "a b "
    ),
}
"""What looks at texts in other ways, or through several patterns."""


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


SEVERAL = {"access.instants._at"}
"""Functions with more than one anchored match of digits, measured together."""


def test_each_pattern_is_proven_or_sees_only_files():
    found = {
        name.partition("#")[0] if name.partition("#")[0] in SEVERAL else name
        for name in numbered(uses())
    }
    found = {name for name in found if name.rpartition(".")[0] not in ELSEWHERE}
    listed = {*PROVEN, *OPERATORS}
    assert sorted(found - listed) == [], "add its worst texts to PROVEN, or use re2"
    assert sorted(listed - found) == [], "these are gone: remove them from the lists"


def test_tests_of_patterns_elsewhere_exist():
    assert all((ROOT / path).is_file() for path in ELSEWHERE.values())


def test_no_pattern_comes_by_another_way():
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
    told = {**PROVEN, **FUNCTIONS}[name]
    run = _run(name, told.use)
    slow = [
        text
        for text in told.texts
        if not growth.is_linear(
            run, *(("", text, "") if isinstance(text, str) else text)
        )
    ]
    assert slow == []


def test_growth_tells_squares_from_lines():
    quadratic = re.compile("a*b")
    assert not growth.is_linear(quadratic.search, "", "a", "")
    assert growth.is_linear(quadratic.match, "", "a", "")
