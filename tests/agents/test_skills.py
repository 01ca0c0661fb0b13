"""Skills: what is found on disk, what a model can reach of it, and edits."""

import contextlib
import logging
import os
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.skills import lookup_tools, parser, skill_files, skill_registry
from agents.skills.parser import SkillInvalid
from agents.skills.skill_registry import SKILLS, SkillsConfig
from config.sections import Config
from core.errors import CoulisseError
from core.trace import TracedToolCall

HEAD = "---\nname: {name}\ndescription: {description}\n---\n"


@pytest.fixture
def skills_dir(tmp_path, caplog):
    """The directory of skills, and the log of what is found in it."""
    caplog.set_level(logging.INFO)
    folder = tmp_path / "skills"
    folder.mkdir()
    return folder


@pytest.fixture
def config(tmp_path):
    return Config(tmp_path / "coulisse.yaml", {})


def put(folder: Path, path: str, content: str | bytes = "") -> Path:
    """Write a file, and the folders above it."""
    file = folder / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(content.encode() if isinstance(content, str) else content)
    return file


def found(config: Config, name: str):
    """Return one skill, read now."""
    skill_registry.get_skills(config)
    skill_registry.refresh()
    return skill_registry.get_skills(config).get(name)


async def told(tool, **arguments) -> str:
    """Call a tool."""
    return await tool.call(arguments, TracedToolCall(tool.name, tool.kind, ""))


async def refused(tool, **arguments) -> str:
    """Call a tool that does not do it; return what the model is told."""
    with pytest.raises(CoulisseError) as caught:
        await told(tool, **arguments)
    return str(caught.value)


def tools(config, *names):
    return {tool.name: tool for tool in skill_registry.make_tools(config, names)}


# What a SKILL.md says.


def test_skill_name_and_description_come_from_frontmatter(skills_dir, config):
    head = "---\nname: review\ndescription: Review a\n  resume.\nlicense: MIT\n---\n"
    put(skills_dir, "some-folder/SKILL.md", head + "\nBe fair.\n\n---\n\nBe kind.\n")
    skill = found(config, "review")
    assert skill.description == "Review a resume."
    assert skill.body == "Be fair.\n\n---\n\nBe kind."


@pytest.mark.parametrize("head", ["", "---\n---\n", "---\n# nothing\n---  \n"])
def test_skill_without_frontmatter_is_named_by_its_folder(skills_dir, config, head):
    put(skills_dir, "triage/SKILL.md", f"{head}# Triage\n")
    skill = found(config, "triage")
    assert (skill.description, skill.body) == ("", "# Triage")


def test_crlf_and_byte_order_mark_are_read(skills_dir, config):
    text = HEAD.format(name="a", description="b") + "one\ntwo\n"
    put(skills_dir, "x/SKILL.md", b"\xef\xbb\xbf" + text.replace("\n", "\r\n").encode())
    skill = found(config, "a")
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


@pytest.mark.parametrize(("content", "complaint"), BROKEN)
def test_invalid_skill_is_logged_and_the_others_load(
    skills_dir, config, caplog, content, complaint
):
    put(skills_dir, "broken/SKILL.md", content)
    put(skills_dir, "good/SKILL.md", "Good.")
    assert list(skill_registry.get_skills(config)) == ["good"]
    skill_registry.refresh()
    (warning,) = warnings(caplog)
    assert f"{skills_dir}/broken/SKILL.md: " in warning
    assert complaint in warning
    assert warning.endswith("the skill is skipped")


TOKENS = [
    *("name", "description", ": ", " ", "\n", "- ", "[", "]", "{", "}", ",", "? "),
    *("&a ", "*a", "<<", "!", "!!bool ", "!!float ", "!!int ", "!!set ", "!!omap "),
    *("!!binary ", "!!timestamp ", "'", '"', "|", ">", "~", "%YAML 1.1\n", "%TAG ! x"),
    *("2024-13-45", "0x", "1e999", "\t", "#", "...", "\0", "\x85", "\\U99999999", "é"),
]


@given(st.lists(st.sampled_from(TOKENS), max_size=12))
def test_any_frontmatter_raises_only_skill_invalid(tokens):
    with contextlib.suppress(SkillInvalid):
        assert parser.parse(f"---\n{''.join(tokens)}\n---\nbody".encode())


@given(st.binary(max_size=80))
def test_any_file_raises_only_skill_invalid(content):
    with contextlib.suppress(SkillInvalid):
        assert parser.parse(content)


def said(caplog, *, above: int = logging.NOTSET) -> list[str]:
    """Return what is said of skills; other parts may speak meanwhile."""
    return [
        record.getMessage()
        for record in caplog.records
        if record.levelno >= above and record.name.startswith("agents.")
    ]


def warnings(caplog) -> list[str]:
    """Return what is complained about skills."""
    return said(caplog, above=logging.WARNING)


def test_frontmatter_name_replaces_an_invalid_folder_name(skills_dir, config, caplog):
    put(skills_dir, "Lebenslauf prüfen/SKILL.md", "x")
    assert skill_registry.get_skills(config) == {}
    assert "'Lebenslauf prüfen' is not a valid tool name; set 'name:'" in (caplog.text)
    put(
        skills_dir,
        "Lebenslauf prüfen/SKILL.md",
        HEAD.format(name="cv", description="d"),
    )
    assert found(config, "cv").folder == "Lebenslauf prüfen"


def test_first_of_two_equal_skill_names_wins(skills_dir, config, caplog):
    for folder in ("b", "a"):
        text = HEAD.format(name="same", description=folder)
        put(skills_dir, f"{folder}/SKILL.md", text)
    assert found(config, "same").folder == "a"
    (warning,) = warnings(caplog)
    assert warning == (
        f"{skills_dir}/b: 'a' already has the name 'same'; the skill is skipped "
        "until you rename one"
    )


def test_long_description_is_truncated_with_a_warning(skills_dir, config, caplog):
    put(skills_dir, "a/SKILL.md", HEAD.format(name="a", description="d" * 1025))
    assert len(tools(config, "a")["a"].description) == 1024
    assert "models receive only the first 1024 characters" in caplog.text


def test_description_of_the_maximum_length_is_accepted(skills_dir, config, caplog):
    put(skills_dir, "a/SKILL.md", HEAD.format(name="a", description="d" * 1024))
    assert tools(config, "a")
    assert warnings(caplog) == []


# Which directory.


def test_missing_directory_has_no_skills(tmp_path, config, caplog):
    assert skill_registry.get_skills(config) == {}
    assert said(caplog) == []


def test_file_instead_of_the_directory_is_warned_about(tmp_path, config, caplog):
    put(tmp_path, "skills")
    assert skill_registry.get_skills(config) == {}
    skill_registry.refresh()
    (warning,) = warnings(caplog)
    assert "cannot be read: Not a directory; see skills.dir" in warning


@pytest.mark.parametrize("absolute", [False, True])
def test_skills_dir_is_configurable(tmp_path, absolute):
    put(tmp_path, "deep/playbooks/a/SKILL.md", "x")
    where = str(tmp_path / "deep/playbooks") if absolute else "playbooks"
    path = tmp_path / "deep/coulisse.yaml"
    config = Config(path, {SKILLS.key: SkillsConfig(dir=where)})
    assert list(skill_registry.get_skills(config)) == ["a"]


def test_skills_dir_can_be_a_symlink(tmp_path, config):
    put(tmp_path, "shared/a/SKILL.md", "x")
    (tmp_path / "skills").symlink_to("shared")
    assert list(skill_registry.get_skills(config)) == ["a"]


def test_changed_skills_dir_replaces_the_first(tmp_path):
    put(tmp_path, "one/a/SKILL.md", "x")
    put(tmp_path, "two/b/SKILL.md", "x")
    first, second = (
        Config(tmp_path / "c.yaml", {SKILLS.key: SkillsConfig(dir=name)})
        for name in ("one", "two")
    )
    assert list(skill_registry.get_skills(first)) == ["a"]
    assert list(skill_registry.get_skills(second)) == ["b"]
    assert list(skill_registry.get_skills(first)) == ["a"]


# Files.


def test_bundled_files_include_subfolders_but_not_hidden_ones(skills_dir, config):
    put(skills_dir, "a/SKILL.md", "x")
    for path in ("rubric.md", "deep/er/letter.md", ".env", ".git/config", "logo.png"):
        put(skills_dir, f"a/{path}", "1234")
    put(skills_dir, ".hidden/SKILL.md", "x")
    put(skills_dir, "no-skill/notes.md", "x")
    put(skills_dir, "README.md", "x")
    assert list(skill_registry.get_skills(config)) == ["a"]
    files = found(config, "a").files
    assert files == {"logo.png": 4, "rubric.md": 4, "deep/er/letter.md": 4}


def test_symlinks_are_not_followed(tmp_path, skills_dir, config, caplog):
    secret = put(tmp_path, "secret/SKILL.md", "secret")
    put(skills_dir, "a/SKILL.md", "x")
    (skills_dir / "a/file.md").symlink_to(secret)
    (skills_dir / "a/folder").symlink_to(secret.parent)
    (skills_dir / "a/near.md").symlink_to("SKILL.md")
    (skills_dir / "b").symlink_to(secret.parent)
    (skills_dir / "c").mkdir()
    (skills_dir / "c/SKILL.md").symlink_to(secret)
    assert list(skill_registry.get_skills(config)) == ["a"]
    assert found(config, "a").files == {}
    assert sorted(warnings(caplog)) == [
        f"{skills_dir}/{path}: symbolic links are not followed; copy the files instead"
        for path in ("a/file.md", "a/folder", "a/near.md", "b", "c/SKILL.md")
    ]


def test_special_files_are_ignored(skills_dir, config):
    put(skills_dir, "a/SKILL.md", "x")
    os.mkfifo(skills_dir / "a/pipe")
    (skills_dir / "b").mkdir()
    os.mkfifo(skills_dir / "b/SKILL.md")
    assert list(skill_registry.get_skills(config)) == ["a"]
    assert found(config, "a").files == {}


def test_name_that_is_not_utf8_is_left_out(skills_dir, config):
    put(skills_dir, "a/SKILL.md", "x")
    with open(os.fsencode(skills_dir) + b"/a/\xff.md", "w") as file:
        file.write("x")
    assert found(config, "a").files == {}


def test_non_utf8_folder_is_named_escaped(skills_dir, config, caplog):
    folder = os.fsencode(skills_dir) + b"/\xff"
    os.mkdir(folder)
    with open(folder + b"/SKILL.md", "w") as file:
        file.write("x")
    assert skill_registry.get_skills(config) == {}
    assert "'?' is not a valid tool name" in caplog.text


def test_huge_folder_is_read_up_to_the_limit(skills_dir, config, caplog, monkeypatch):
    monkeypatch.setattr(skill_files, "MAX_FILES", 5)
    put(skills_dir, "a/SKILL.md", "x")
    for number in range(9):
        put(skills_dir, f"a/{number}.md")
    assert len(found(config, "a").files) == 4
    assert "levels deep; the rest is ignored" in caplog.text


def test_deep_folder_is_read_up_to_the_limit(skills_dir, config, caplog):
    put(skills_dir, "a/SKILL.md", "x")
    put(skills_dir, "a/1/2/3/4/5/6/7/8/in.md", "x")
    put(skills_dir, "a/1/2/3/4/5/6/7/8/9/out.md", "x")
    assert list(found(config, "a").files) == ["1/2/3/4/5/6/7/8/in.md"]
    assert "levels deep; the rest is ignored" in caplog.text


# What a model is offered, and told.


@pytest.fixture
def two(skills_dir, config):
    """A configuration with two skills that have files."""
    put(
        skills_dir, "review/SKILL.md", "---\ndescription: Review.\n---\nRead rubric.md."
    )
    put(skills_dir, "review/rubric.md", "# Rubric")
    put(skills_dir, "review/templates/letter.md", "Dear {name}")
    put(skills_dir, "pay/SKILL.md", "---\ndescription: Pay.\n---\nAsk first.")
    put(skills_dir, "pay/secret.md", "the budget")
    return config


def test_agent_without_skills_has_no_skill_tools(two):
    assert skill_registry.make_tools(two, ()) == []
    assert skill_registry.make_tools(two, ["nobody"]) == []


def test_each_skill_is_a_tool_plus_a_file_reader(two):
    offered = tools(two, "pay", "review")
    assert list(offered) == ["pay", "review", "skill_file"]
    assert {tool.kind for tool in offered.values()} == {"skill"}
    assert offered["review"].description == "Review."
    assert offered["review"].parameters == {"type": "object", "properties": {}}
    schema = offered["skill_file"].parameters
    assert schema["properties"]["skill"]["enum"] == ["pay", "review"]


async def test_skill_tool_returns_body_and_file_list(two):
    assert await told(tools(two, "review")["review"]) == (
        "Read rubric.md.\n\n"
        "Files of this skill, to read with skill_file:\n"
        "- rubric.md (8 bytes)\n"
        "- templates/letter.md (11 bytes)"
    )


async def test_empty_skill_says_so(skills_dir, config):
    put(skills_dir, "a/SKILL.md")
    assert (
        await told(tools(config, "a")["a"]) == "(The SKILL.md of this skill is empty.)"
    )


@pytest.mark.parametrize("path", ["templates/letter.md", "./templates//letter.md"])
async def test_skill_file_is_read_by_path(two, path):
    reader = tools(two, "review")["skill_file"]
    assert await told(reader, skill="review", path=path) == "Dear {name}"


async def test_skill_body_can_be_read_as_a_file(two):
    reader = tools(two, "review")["skill_file"]
    assert await told(reader, skill="review", path="SKILL.md") == "Read rubric.md."


@pytest.mark.parametrize(
    "path",
    [
        *("../pay/secret.md", "templates/../../pay/secret.md", "..", "/etc/passwd"),
        *("..\\pay\\secret.md", "templates/../rubric.md"),
    ],
)
async def test_path_outside_the_folder_is_refused(two, path):
    reader = tools(two, "pay", "review")["skill_file"]
    complaint = await refused(reader, skill="review", path=path)
    assert "is outside the skill's folder" in complaint


@pytest.mark.parametrize("path", ["no.md", "templates", "RUBRIC.md", ".", "a\0b"])
async def test_unknown_path_lists_the_existing_files(two, path):
    reader = tools(two, "review")["skill_file"]
    complaint = await refused(reader, skill="review", path=path)
    assert complaint.endswith("its files are: rubric.md, templates/letter.md")


async def test_agents_read_files_of_their_own_skills_only(two):
    reader = tools(two, "review")["skill_file"]
    complaint = await refused(reader, skill="pay", path="secret.md")
    assert complaint == "there is no skill 'pay'; available skills: review"


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
async def test_wrong_arguments_are_refused(two, arguments):
    assert await refused(tools(two, "review")["skill_file"], **arguments)


async def test_file_added_during_the_turn_is_refused(two, skills_dir):
    reader = tools(two, "review")["skill_file"]
    put(skills_dir, "review/new.md", "x")
    assert "is not a file of" in await refused(reader, skill="review", path="new.md")


async def test_file_is_read_in_its_current_version(two, skills_dir):
    reader = tools(two, "review")["skill_file"]
    put(skills_dir, "review/rubric.md", "# New")
    assert await told(reader, skill="review", path="rubric.md") == "# New"


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
        *(swap_file, swap_inner_folder, swap_skill, swap_for_a_pipe),
        *(swap_for_a_folder, remove),
    ],
)
async def test_swapped_file_is_refused(two, skills_dir, tmp_path, swap):
    reader = tools(two, "review")["skill_file"]
    put(tmp_path, "elsewhere/letter.md", "secret")
    swap(skills_dir / "review", tmp_path / "elsewhere")
    asked = {"skill": "review", "path": "templates/letter.md"}
    assert "can no longer be read" in await refused(reader, **asked)


@pytest.mark.parametrize("content", [b"\x89PNG\r\n\x1a\n\xff", b"text\0more"])
async def test_binary_file_is_listed_but_not_shown(skills_dir, config, content):
    put(skills_dir, "a/SKILL.md", "x")
    put(skills_dir, "a/logo.png", content)
    offered = tools(config, "a")
    assert f"- logo.png ({len(content)} bytes)" in await told(offered["a"])
    answer = await told(offered["skill_file"], skill="a", path="logo.png")
    assert answer == (
        f"(logo.png is not text but {len(content)} bytes; it cannot be shown.)"
    )


async def test_huge_file_is_not_shown(skills_dir, config, monkeypatch):
    monkeypatch.setattr(lookup_tools, "MAX_FILE_BYTES", 1024 * 1024)
    put(skills_dir, "a/SKILL.md", "x")
    put(skills_dir, "a/book.txt", b"x" * (1024 * 1024 + 1))
    answer = await told(tools(config, "a")["skill_file"], skill="a", path="book.txt")
    assert answer == "(book.txt is larger than 1 MiB and cannot be shown.)"


async def test_long_file_is_read_in_parts_without_gaps(skills_dir, config):
    text = "".join(f"{number:07}\n" for number in range(9_000)) + "äöü😀"
    put(skills_dir, "a/SKILL.md", "x")
    put(skills_dir, "a/long.txt", text)
    reader, read, offset = tools(config, "a")["skill_file"], "", 0
    while True:
        part = await told(reader, skill="a", path="long.txt", offset=offset)
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
    put(skills_dir, "a/SKILL.md", body)
    for number in range(300):
        put(skills_dir, f"a/{'long-name-' * 10}{number}.md")
    offered = tools(config, "a")
    first = await told(offered["a"])
    assert len(first) < 32_000
    assert "path 'SKILL.md', offset 24000" in first
    assert first.endswith(" more")
    rest = await told(offered["skill_file"], skill="a", path="SKILL.md", offset=24_000)
    assert first[:24_000] + rest == body


async def test_offset_at_and_beyond_the_end(two):
    reader = tools(two, "review")["skill_file"]
    asked = {"skill": "review", "path": "rubric.md"}
    assert await told(reader, **asked, offset=8) == "(rubric.md ends here.)"
    complaint = await refused(reader, **asked, offset=9)
    assert complaint == "offset: 'rubric.md' has only 8 characters"


def test_unknown_skill_names_are_logged_once_per_config(two, caplog):
    for _ in range(3):
        assert list(tools(two, "pay", "nobody")) == ["pay", "skill_file"]
    assert warnings(caplog) == [
        "an agent lists skill 'nobody', which is not in ./skills; available skills: "
        "pay, review"
    ]
    skill_registry.make_tools(Config(two.path, {}), ["nobody"])
    assert len(warnings(caplog)) == 2


# Edits.


def test_skills_are_polled_twice_a_second():
    assert skill_registry.POLL_SECONDS == 0.5


@pytest.fixture
def watching(two, monkeypatch):
    monkeypatch.setattr(skill_registry, "POLL_SECONDS", 0.02)
    watcher = skill_registry.SkillWatcher(two)
    watcher.start()
    yield two
    watcher.stop()


def soon(condition) -> None:
    """Wait for a condition."""
    began = time.monotonic()
    while not condition():
        assert time.monotonic() - began < 60, "it never came true"
        time.sleep(0.005)


def test_edits_are_noticed_automatically(watching, skills_dir):
    put(skills_dir, "pay/SKILL.md", "Ask twice.")
    put(skills_dir, "new/SKILL.md", "New.")
    (skills_dir / "review/SKILL.md").unlink()
    soon(lambda: sorted(skill_registry.get_skills(watching)) == ["new", "pay"])
    soon(lambda: skill_registry.get_skills(watching)["pay"].body == "Ask twice.")
    assert sorted(skill_registry.get_skills(watching)) == ["new", "pay"]


def test_watcher_error_does_not_stop_the_start(two, caplog, monkeypatch):
    monkeypatch.setattr(skill_files, "list_visible", lambda folder: 1 / 0)
    watcher = skill_registry.SkillWatcher(two)
    watcher.start()
    watcher.stop()
    assert "could not load the skills" in caplog.text


def test_watcher_error_does_not_end_the_watch(
    watching, skills_dir, caplog, monkeypatch
):
    with monkeypatch.context() as patch:
        patch.setattr(skill_files, "list_visible", lambda folder: 1 / 0)
        soon(lambda: "could not load the skills" in caplog.text)
    put(skills_dir, "new/SKILL.md", "New.")
    soon(lambda: "new" in skill_registry.get_skills(watching))
    assert skill_registry.get_skills(watching)["new"].body == "New."


def test_log_names_the_changed_skills(two, skills_dir, caplog):
    skill_registry.get_skills(two)
    assert said(caplog) == [f"skills in {skills_dir}: added 'pay', 'review'"]
    put(skills_dir, "pay/SKILL.md", "Ask twice.")
    put(skills_dir, "new/SKILL.md", "New.")
    (skills_dir / "review/SKILL.md").unlink()
    skill_registry.refresh()
    assert said(caplog)[1:] == [
        f"skills in {skills_dir}: added 'new', removed 'review', changed 'pay'"
    ]


def test_the_log_is_silent_while_nothing_changes(two, caplog):
    skill_registry.get_skills(two)
    caplog.clear()
    skill_registry.refresh()
    assert said(caplog) == []


def test_directory_created_later_is_noticed(tmp_path, config):
    assert skill_registry.get_skills(config) == {}
    put(tmp_path, "skills/a/SKILL.md", "x")
    assert found(config, "a")


@pytest.mark.parametrize("kept_time", [False, True])
def test_change_of_equal_length_is_noticed(two, skills_dir, kept_time):
    skill_registry.get_skills(two)
    file = skills_dir / "pay/SKILL.md"
    before = file.stat()
    file.write_text(file.read_text().replace("Ask", "Beg"))
    if kept_time:
        os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert found(two, "pay").body == "Beg first."


def test_change_within_timestamp_resolution_is_noticed(two, skills_dir, monkeypatch):
    now = time.time_ns()
    coarse = skill_files.FileStamp(10, now, now, 1)
    monkeypatch.setattr(skill_files, "_stamp", lambda status: coarse)
    skill_registry.get_skills(two)
    put(skills_dir, "pay/SKILL.md", "Beg first.")
    assert found(two, "pay").body == "Beg first."


def test_broken_skill_is_logged_and_can_return(two, skills_dir, caplog):
    skill_registry.get_skills(two)
    good = (skills_dir / "pay/SKILL.md").read_text()
    put(skills_dir, "pay/SKILL.md", "---\n")
    assert found(two, "pay") is None
    assert len(warnings(caplog)) == 1
    put(skills_dir, "pay/SKILL.md", good)
    assert found(two, "pay")
    put(skills_dir, "pay/SKILL.md", "---\n")
    assert found(two, "pay") is None
    assert len(warnings(caplog)) == 2


def test_unchanged_skill_is_not_read_again(two, skills_dir, monkeypatch):
    past = time.time_ns() - 60_000_000_000
    for name in ("pay", "review"):
        os.utime(skills_dir / name / "SKILL.md", ns=(past, past))
    skill_registry.get_skills(two)
    read = []
    original = skill_files.read_file
    monkeypatch.setattr(
        skill_files,
        "read_file",
        lambda *args: read.append(args[1][0]) or original(*args),
    )
    skill_registry.refresh()
    assert read == []
    put(skills_dir, "pay/SKILL.md", "x")
    skill_registry.refresh()
    assert read == ["pay"]


def test_unreadable_folder_does_not_hide_the_others(
    two, skills_dir, caplog, monkeypatch
):
    def look(folder, original=skill_files.list_folder):
        if folder.name == "pay":
            raise PermissionError(13, "Permission denied")
        return original(folder)

    monkeypatch.setattr(skill_files, "list_folder", look)
    assert list(skill_registry.get_skills(two)) == ["review"]
    assert f"{skills_dir}/pay: cannot be read: Permission denied" in caplog.text
