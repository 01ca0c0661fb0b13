"""Parsing of SKILL.md, and the names of skills."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.skills import parser, skill_registry
from agents.skills.parser import SkillInvalid
from tests.agents.skills.skill_harness import (
    HEAD,
    load_skill,
    make_tools,
    skill_warnings,
    write_file,
)

# The content of a SKILL.md.


def test_skill_name_and_description_come_from_frontmatter(skills_dir, config):
    head = "---\nname: review\ndescription: Review a\n  resume.\nlicense: MIT\n---\n"
    write_file(
        skills_dir, "some-folder/SKILL.md", head + "\nBe fair.\n\n---\n\nBe kind.\n"
    )
    skill = load_skill(config, "review")
    assert skill.description == "Review a resume."
    assert skill.body == "Be fair.\n\n---\n\nBe kind."


@pytest.mark.parametrize("head", ["", "---\n---\n", "---\n# nothing\n---  \n"])
def test_skill_without_frontmatter_is_named_by_its_folder(skills_dir, config, head):
    write_file(skills_dir, "triage/SKILL.md", f"{head}# Triage\n")
    skill = load_skill(config, "triage")
    assert (skill.description, skill.body) == ("", "# Triage")


def test_crlf_and_byte_order_mark_are_read(skills_dir, config):
    text = HEAD.format(name="a", description="b") + "one\ntwo\n"
    write_file(
        skills_dir, "x/SKILL.md", b"\xef\xbb\xbf" + text.replace("\n", "\r\n").encode()
    )
    skill = load_skill(config, "a")
    assert (skill.description, skill.body) == ("b", "one\ntwo")


BROKEN = [
    ("---\nname: a\n", "frontmatter is not closed; add a line '---'"),
    ("---\nname: a\ndescription: Use it: now\n---\n", "line 3: its frontmatter is"),
    ("---\ndescription: Use it: now\n---\n", "needs quotes"),
    ("---\nname: [a\n---\n", "is not valid YAML"),
    ("---\nname: a\nname: b\n---\n", "is not valid YAML"),
    ("---\nname: !!python/name:os.system\n---\n", "is not valid YAML"),
    ("---\nname: 2024-99-99\n---\n", "is not valid YAML"),
    ("---\n" + "[" * 100 + "\n---\n", "is not valid YAML"),
    ("---\nname: !!bool x\n---\n", "a value cannot be read; put it in quotes"),
    ("---\nname: !!float ''\n---\n", "a value cannot be read; put it in quotes"),
    ('---\nname: "\\U99999999"\n---\n', "a value cannot be read"),
    ("---\n- a\n---\n", "must be a map"),
    ("---\nname: 7\n---\n", "its 'name' must be text; put it in quotes"),
    ("---\ndescription: yes please\nname: true\n---\n", "'name' must be text"),
    ("---\nname: two words\n---\n", "'two words' is not a valid tool name"),
    ("---\nname: " + "x" * 65 + "\n---\n", "is not a valid tool name"),
    ("---\nname: ''\n---\n", "'' is not a valid tool name"),
    ("---\nname: skill_file\n---\n", "set another 'name:'"),
    ("---\nname: a\nx: " + "y" * 17_000 + "\n---\n", "move the text below it"),
    (b"one\n\xff\xfe\n", "line 2 is not UTF-8 text"),
    (b"x" * 300_000, "it is larger than 256 KiB"),
]


@pytest.mark.parametrize(("content", "message"), BROKEN)
def test_invalid_skill_is_logged_and_the_others_load(
    skills_dir, config, caplog, content, message
):
    write_file(skills_dir, "broken/SKILL.md", content)
    write_file(skills_dir, "good/SKILL.md", "Good.")
    assert list(skill_registry.get_skills(config)) == ["good"]
    skill_registry.refresh()
    (warning,) = skill_warnings(caplog)
    assert f"{skills_dir}/broken/SKILL.md: " in warning
    assert message in warning
    assert warning.endswith("the skill is skipped")


TOKENS = [
    "name",
    "description",
    ": ",
    " ",
    "\n",
    "- ",
    "[",
    "]",
    "{",
    "}",
    ",",
    "? ",
    "&a ",
    "*a",
    "<<",
    "!",
    "!!bool ",
    "!!float ",
    "!!int ",
    "!!set ",
    "!!omap ",
    "!!binary ",
    "!!timestamp ",
    "'",
    '"',
    "|",
    ">",
    "~",
    "%YAML 1.1\n",
    "%TAG ! x",
    "2024-13-45",
    "0x",
    "1e999",
    "\t",
    "#",
    "...",
    "\0",
    "\x85",
    "\\U99999999",
    "é",
]


@given(st.lists(st.sampled_from(TOKENS), max_size=12))
def test_any_frontmatter_raises_only_skill_invalid(tokens):
    with contextlib.suppress(SkillInvalid):
        assert parser.parse(f"---\n{''.join(tokens)}\n---\nbody".encode())


@given(st.binary(max_size=80))
def test_any_file_raises_only_skill_invalid(content):
    with contextlib.suppress(SkillInvalid):
        assert parser.parse(content)


def test_frontmatter_name_replaces_an_invalid_folder_name(skills_dir, config, caplog):
    write_file(skills_dir, "Lebenslauf prüfen/SKILL.md", "x")
    assert skill_registry.get_skills(config) == {}
    assert "'Lebenslauf prüfen' is not a valid tool name; set 'name:'" in (caplog.text)
    write_file(
        skills_dir,
        "Lebenslauf prüfen/SKILL.md",
        HEAD.format(name="cv", description="d"),
    )
    assert load_skill(config, "cv").folder == "Lebenslauf prüfen"


def test_first_of_two_equal_skill_names_wins(skills_dir, config, caplog):
    for folder in ("b", "a"):
        text = HEAD.format(name="same", description=folder)
        write_file(skills_dir, f"{folder}/SKILL.md", text)
    assert load_skill(config, "same").folder == "a"
    (warning,) = skill_warnings(caplog)
    assert warning == (
        f"{skills_dir}/b: 'a' already has the name 'same'; the skill is skipped "
        "until you rename one"
    )


def test_long_description_is_truncated_with_a_warning(skills_dir, config, caplog):
    write_file(skills_dir, "a/SKILL.md", HEAD.format(name="a", description="d" * 1025))
    assert len(make_tools(config, "a")["a"].description) == 1024
    assert "models receive only the first 1024 characters" in caplog.text


def test_description_of_the_maximum_length_is_accepted(skills_dir, config, caplog):
    write_file(skills_dir, "a/SKILL.md", HEAD.format(name="a", description="d" * 1024))
    assert make_tools(config, "a")
    assert skill_warnings(caplog) == []
