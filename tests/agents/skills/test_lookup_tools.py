"""The tools that look up skills and read their files."""

import os
from pathlib import Path

import pytest

from agents.skills import lookup_tools, skill_registry
from config.sections import Config
from tests.agents.skills.skill_harness import (
    call_refused_tool,
    call_tool,
    make_tools,
    skill_warnings,
    write_file,
)


def test_agent_without_skills_has_no_skill_tools(two_skills):
    assert skill_registry.make_tools(two_skills, ()) == []
    assert skill_registry.make_tools(two_skills, ["nobody"]) == []


def test_each_skill_is_a_tool_plus_a_file_reader(two_skills):
    offered = make_tools(two_skills, "pay", "review")
    assert list(offered) == ["pay", "review", "skill_file"]
    assert {tool.kind for tool in offered.values()} == {"skill"}
    assert offered["review"].description == "Review."
    assert offered["review"].parameters == {"type": "object", "properties": {}}
    schema = offered["skill_file"].parameters
    assert schema["properties"]["skill"]["enum"] == ["pay", "review"]


async def test_skill_tool_returns_body_and_file_list(two_skills):
    assert await call_tool(make_tools(two_skills, "review")["review"]) == (
        "Read rubric.md.\n\n"
        "Files of this skill, to read with skill_file:\n"
        "- rubric.md (8 bytes)\n"
        "- templates/letter.md (11 bytes)"
    )


async def test_empty_skill_says_so(skills_dir, config):
    write_file(skills_dir, "a/SKILL.md")
    assert (
        await call_tool(make_tools(config, "a")["a"])
        == "(The SKILL.md of this skill is empty.)"
    )


@pytest.mark.parametrize("path", ["templates/letter.md", "./templates//letter.md"])
async def test_skill_file_is_read_by_path(two_skills, path):
    reader = make_tools(two_skills, "review")["skill_file"]
    assert await call_tool(reader, skill="review", path=path) == "Dear {name}"


async def test_skill_body_can_be_read_as_a_file(two_skills):
    reader = make_tools(two_skills, "review")["skill_file"]
    assert await call_tool(reader, skill="review", path="SKILL.md") == "Read rubric.md."


@pytest.mark.parametrize(
    "path",
    [
        "../pay/secret.md",
        "templates/../../pay/secret.md",
        "..",
        "/etc/passwd",
        "..\\pay\\secret.md",
        "templates/../rubric.md",
    ],
)
async def test_path_outside_the_folder_is_refused(two_skills, path):
    reader = make_tools(two_skills, "pay", "review")["skill_file"]
    message = await call_refused_tool(reader, skill="review", path=path)
    assert "is outside the skill's folder" in message


@pytest.mark.parametrize("path", ["no.md", "templates", "RUBRIC.md", ".", "a\0b"])
async def test_unknown_path_lists_the_existing_files(two_skills, path):
    reader = make_tools(two_skills, "review")["skill_file"]
    message = await call_refused_tool(reader, skill="review", path=path)
    assert message.endswith("its files are: rubric.md, templates/letter.md")


async def test_agents_read_files_of_their_own_skills_only(two_skills):
    reader = make_tools(two_skills, "review")["skill_file"]
    message = await call_refused_tool(reader, skill="pay", path="secret.md")
    assert message == "there is no skill 'pay'; available skills: review"


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"skill": "review"},
        {"skill": "review", "path": ""},
        {"skill": 1, "path": "rubric.md"},
        {"skill": "review", "path": "rubric.md", "offset": -1},
        {"skill": "review", "path": "rubric.md", "offset": "x"},
        {"skill": "review", "path": "rubric.md", "mode": "w"},
    ],
)
async def test_wrong_arguments_are_refused(two_skills, arguments):
    assert await call_refused_tool(
        make_tools(two_skills, "review")["skill_file"], **arguments
    )


async def test_file_added_during_the_turn_is_refused(two_skills, skills_dir):
    reader = make_tools(two_skills, "review")["skill_file"]
    write_file(skills_dir, "review/new.md", "x")
    assert "is not a file of" in await call_refused_tool(
        reader, skill="review", path="new.md"
    )


async def test_file_is_read_in_its_current_version(two_skills, skills_dir):
    reader = make_tools(two_skills, "review")["skill_file"]
    write_file(skills_dir, "review/rubric.md", "# New")
    assert await call_tool(reader, skill="review", path="rubric.md") == "# New"


def swap_file(folder: Path, secret: Path) -> None:
    (folder / "templates/letter.md").unlink()
    (folder / "templates/letter.md").symlink_to(secret / "letter.md")


def swap_inner_folder(folder: Path, secret: Path) -> None:
    (folder / "templates").rename(folder / "old")
    (folder / "templates").symlink_to(secret)


def swap_skill(folder: Path, secret: Path) -> None:
    folder.rename(folder.parent / "old")
    (secret / "templates").mkdir()
    (secret / "letter.md").rename(secret / "templates/letter.md")
    folder.symlink_to(secret)


def swap_for_a_pipe(folder: Path, secret: Path) -> None:
    (folder / "templates/letter.md").unlink()
    os.mkfifo(folder / "templates/letter.md")


def swap_for_a_folder(folder: Path, secret: Path) -> None:
    (folder / "templates/letter.md").unlink()
    (folder / "templates/letter.md").mkdir()


def remove(folder: Path, secret: Path) -> None:
    (folder / "templates/letter.md").unlink()


@pytest.mark.parametrize(
    "swap",
    [
        swap_file,
        swap_inner_folder,
        swap_skill,
        swap_for_a_pipe,
        swap_for_a_folder,
        remove,
    ],
)
async def test_swapped_file_is_refused(two_skills, skills_dir, tmp_path, swap):
    reader = make_tools(two_skills, "review")["skill_file"]
    write_file(tmp_path, "elsewhere/letter.md", "secret")
    swap(skills_dir / "review", tmp_path / "elsewhere")
    asked = {"skill": "review", "path": "templates/letter.md"}
    assert "can no longer be read" in await call_refused_tool(reader, **asked)


@pytest.mark.parametrize("content", [b"\x89PNG\r\n\x1a\n\xff", b"text\0more"])
async def test_binary_file_is_listed_but_not_shown(skills_dir, config, content):
    write_file(skills_dir, "a/SKILL.md", "x")
    write_file(skills_dir, "a/logo.png", content)
    offered = make_tools(config, "a")
    assert f"- logo.png ({len(content)} bytes)" in await call_tool(offered["a"])
    answer = await call_tool(offered["skill_file"], skill="a", path="logo.png")
    assert answer == (
        f"(logo.png is not text but {len(content)} bytes; it cannot be shown.)"
    )


async def test_huge_file_is_not_shown(skills_dir, config, monkeypatch):
    monkeypatch.setattr(lookup_tools, "MAX_FILE_BYTES", 1024 * 1024)
    write_file(skills_dir, "a/SKILL.md", "x")
    write_file(skills_dir, "a/book.txt", b"x" * (1024 * 1024 + 1))
    answer = await call_tool(
        make_tools(config, "a")["skill_file"], skill="a", path="book.txt"
    )
    assert answer == "(book.txt is larger than 1 MiB and cannot be shown.)"


async def test_long_file_is_read_in_parts_without_gaps(skills_dir, config):
    text = "".join(f"{number:07}\n" for number in range(9_000)) + "äöü😀"
    write_file(skills_dir, "a/SKILL.md", "x")
    write_file(skills_dir, "a/long.txt", text)
    reader, read, offset = make_tools(config, "a")["skill_file"], "", 0
    while True:
        part = await call_tool(reader, skill="a", path="long.txt", offset=offset)
        shown, _, cut = part.partition("\n\n(Truncated at character ")
        read += shown
        if not cut:
            break
        assert cut == (
            f"{len(read)} of {len(text)}. To continue, call skill_file with skill "
            f"'a', path 'long.txt', offset {len(read)}.)"
        )
        assert len(part) < 32_000
        offset = len(read)
    assert read == text


async def test_long_body_continues_as_a_file(skills_dir, config):
    body = "y" * 30_000 + "the end"
    write_file(skills_dir, "a/SKILL.md", body)
    for number in range(300):
        write_file(skills_dir, f"a/{'long-name-' * 10}{number}.md")
    offered = make_tools(config, "a")
    first = await call_tool(offered["a"])
    assert len(first) < 32_000
    assert "path 'SKILL.md', offset 24000" in first
    assert first.endswith(" more")
    remainder = await call_tool(
        offered["skill_file"], skill="a", path="SKILL.md", offset=24_000
    )
    assert first[:24_000] + remainder == body


async def test_offset_at_and_beyond_the_end(two_skills):
    reader = make_tools(two_skills, "review")["skill_file"]
    asked = {"skill": "review", "path": "rubric.md"}
    assert await call_tool(reader, **asked, offset=8) == "(rubric.md ends here.)"
    message = await call_refused_tool(reader, **asked, offset=9)
    assert message == "offset: 'rubric.md' has only 8 characters"


def test_unknown_skill_names_are_logged_once_per_config(two_skills, caplog):
    for _ in range(3):
        assert list(make_tools(two_skills, "pay", "nobody")) == ["pay", "skill_file"]
    assert skill_warnings(caplog) == [
        "an agent lists skill 'nobody', which is not in ./skills; available skills: "
        "pay, review"
    ]
    skill_registry.make_tools(Config(two_skills.path, {}), ["nobody"])
    assert len(skill_warnings(caplog)) == 2
