"""The directory of skills and the files of a skill."""

import os

import pytest

from agents.skills import skill_files, skill_registry
from agents.skills.skill_registry import SKILLS, SkillsConfig
from config.sections import Config
from tests.agents.skills.skill_harness import (
    load_skill,
    skill_log,
    skill_warnings,
    write_file,
)

# The directory.


def test_missing_directory_has_no_skills(tmp_path, config, caplog):
    assert skill_registry.get_skills(config) == {}
    assert skill_log(caplog) == []


def test_file_instead_of_the_directory_is_warned_about(tmp_path, config, caplog):
    write_file(tmp_path, "skills")
    assert skill_registry.get_skills(config) == {}
    skill_registry.refresh()
    (warning,) = skill_warnings(caplog)
    assert "cannot be read: Not a directory; see skills.dir" in warning


@pytest.mark.parametrize("absolute", [False, True])
def test_skills_dir_is_configurable(tmp_path, absolute):
    write_file(tmp_path, "deep/playbooks/a/SKILL.md", "x")
    directory = str(tmp_path / "deep/playbooks") if absolute else "playbooks"
    path = tmp_path / "deep/coulisse.yaml"
    config = Config(path, {SKILLS.key: SkillsConfig(dir=directory)})
    assert list(skill_registry.get_skills(config)) == ["a"]


def test_skills_dir_can_be_a_symlink(tmp_path, config):
    write_file(tmp_path, "shared/a/SKILL.md", "x")
    (tmp_path / "skills").symlink_to("shared")
    assert list(skill_registry.get_skills(config)) == ["a"]


def test_changed_skills_dir_replaces_the_first(tmp_path):
    write_file(tmp_path, "one/a/SKILL.md", "x")
    write_file(tmp_path, "two/b/SKILL.md", "x")
    first, second = (
        Config(tmp_path / "c.yaml", {SKILLS.key: SkillsConfig(dir=name)})
        for name in ("one", "two")
    )
    assert list(skill_registry.get_skills(first)) == ["a"]
    assert list(skill_registry.get_skills(second)) == ["b"]
    assert list(skill_registry.get_skills(first)) == ["a"]


# Files.


def test_bundled_files_include_subfolders_but_not_hidden_ones(skills_dir, config):
    write_file(skills_dir, "a/SKILL.md", "x")
    for path in ("rubric.md", "deep/er/letter.md", ".env", ".git/config", "logo.png"):
        write_file(skills_dir, f"a/{path}", "1234")
    write_file(skills_dir, ".hidden/SKILL.md", "x")
    write_file(skills_dir, "no-skill/notes.md", "x")
    write_file(skills_dir, "README.md", "x")
    assert list(skill_registry.get_skills(config)) == ["a"]
    files = load_skill(config, "a").files
    assert files == {"logo.png": 4, "rubric.md": 4, "deep/er/letter.md": 4}


def test_symlinks_are_not_followed(tmp_path, skills_dir, config, caplog):
    secret = write_file(tmp_path, "secret/SKILL.md", "secret")
    write_file(skills_dir, "a/SKILL.md", "x")
    (skills_dir / "a/file.md").symlink_to(secret)
    (skills_dir / "a/folder").symlink_to(secret.parent)
    (skills_dir / "a/near.md").symlink_to("SKILL.md")
    (skills_dir / "b").symlink_to(secret.parent)
    (skills_dir / "c").mkdir()
    (skills_dir / "c/SKILL.md").symlink_to(secret)
    assert list(skill_registry.get_skills(config)) == ["a"]
    assert load_skill(config, "a").files == {}
    assert sorted(skill_warnings(caplog)) == [
        f"{skills_dir}/{path}: symbolic links are not followed; copy the files instead"
        for path in ("a/file.md", "a/folder", "a/near.md", "b", "c/SKILL.md")
    ]


def test_special_files_are_ignored(skills_dir, config):
    write_file(skills_dir, "a/SKILL.md", "x")
    os.mkfifo(skills_dir / "a/pipe")
    (skills_dir / "b").mkdir()
    os.mkfifo(skills_dir / "b/SKILL.md")
    assert list(skill_registry.get_skills(config)) == ["a"]
    assert load_skill(config, "a").files == {}


def test_name_that_is_not_utf8_is_left_out(skills_dir, config):
    write_file(skills_dir, "a/SKILL.md", "x")
    with open(os.fsencode(skills_dir) + b"/a/\xff.md", "w") as file:
        file.write("x")
    assert load_skill(config, "a").files == {}


def test_non_utf8_folder_is_named_escaped(skills_dir, config, caplog):
    folder = os.fsencode(skills_dir) + b"/\xff"
    os.mkdir(folder)
    with open(folder + b"/SKILL.md", "w") as file:
        file.write("x")
    assert skill_registry.get_skills(config) == {}
    assert "'?' is not a valid tool name" in caplog.text


def test_huge_folder_is_read_up_to_the_limit(skills_dir, config, caplog, monkeypatch):
    monkeypatch.setattr(skill_files, "MAX_FILES", 5)
    write_file(skills_dir, "a/SKILL.md", "x")
    for number in range(9):
        write_file(skills_dir, f"a/{number}.md")
    assert len(load_skill(config, "a").files) == 4
    assert "levels deep; the rest is ignored" in caplog.text


def test_deep_folder_is_read_up_to_the_limit(skills_dir, config, caplog):
    write_file(skills_dir, "a/SKILL.md", "x")
    write_file(skills_dir, "a/1/2/3/4/5/6/7/8/in.md", "x")
    write_file(skills_dir, "a/1/2/3/4/5/6/7/8/9/out.md", "x")
    assert list(load_skill(config, "a").files) == ["1/2/3/4/5/6/7/8/in.md"]
    assert "levels deep; the rest is ignored" in caplog.text
