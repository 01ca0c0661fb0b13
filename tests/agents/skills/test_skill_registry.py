"""The skill watcher notices edits."""

import os
import time

import pytest

from agents.skills import skill_files, skill_registry
from tests.agents.skills.skill_harness import (
    load_skill,
    skill_log,
    skill_warnings,
    write_file,
)

# Edits.


def test_skills_are_polled_twice_a_second():
    assert skill_registry.POLL_SECONDS == 0.5


@pytest.fixture
def watching(two_skills, monkeypatch):
    monkeypatch.setattr(skill_registry, "POLL_SECONDS", 0.02)
    watcher = skill_registry.SkillWatcher(two_skills)
    watcher.start()
    yield two_skills
    watcher.stop()


def wait_until(condition) -> None:
    """Wait for a condition."""
    began = time.monotonic()
    while not condition():
        assert time.monotonic() - began < 60, "it never came true"
        time.sleep(0.005)


def test_edits_are_noticed_automatically(watching, skills_dir):
    write_file(skills_dir, "pay/SKILL.md", "Ask twice.")
    write_file(skills_dir, "new/SKILL.md", "New.")
    (skills_dir / "review/SKILL.md").unlink()
    wait_until(lambda: sorted(skill_registry.get_skills(watching)) == ["new", "pay"])
    wait_until(lambda: skill_registry.get_skills(watching)["pay"].body == "Ask twice.")
    assert sorted(skill_registry.get_skills(watching)) == ["new", "pay"]


def test_watcher_error_does_not_stop_the_start(two_skills, caplog, monkeypatch):
    monkeypatch.setattr(skill_files, "list_visible", lambda folder: 1 / 0)
    watcher = skill_registry.SkillWatcher(two_skills)
    watcher.start()
    watcher.stop()
    assert "could not load the skills" in caplog.text


def test_watcher_error_does_not_end_the_watch(
    watching, skills_dir, caplog, monkeypatch
):
    with monkeypatch.context() as patch:
        patch.setattr(skill_files, "list_visible", lambda folder: 1 / 0)
        wait_until(lambda: "could not load the skills" in caplog.text)
    write_file(skills_dir, "new/SKILL.md", "New.")
    wait_until(lambda: "new" in skill_registry.get_skills(watching))
    assert skill_registry.get_skills(watching)["new"].body == "New."


def test_log_names_the_changed_skills(two_skills, skills_dir, caplog):
    skill_registry.get_skills(two_skills)
    assert skill_log(caplog) == [f"skills in {skills_dir}: added 'pay', 'review'"]
    write_file(skills_dir, "pay/SKILL.md", "Ask twice.")
    write_file(skills_dir, "new/SKILL.md", "New.")
    (skills_dir / "review/SKILL.md").unlink()
    skill_registry.refresh()
    assert skill_log(caplog)[1:] == [
        f"skills in {skills_dir}: added 'new', removed 'review', changed 'pay'"
    ]


def test_the_log_is_silent_while_nothing_changes(two_skills, caplog):
    skill_registry.get_skills(two_skills)
    caplog.clear()
    skill_registry.refresh()
    assert skill_log(caplog) == []


def test_directory_created_later_is_noticed(tmp_path, config):
    assert skill_registry.get_skills(config) == {}
    write_file(tmp_path, "skills/a/SKILL.md", "x")
    assert load_skill(config, "a")


@pytest.mark.parametrize("kept_time", [False, True])
def test_change_of_equal_length_is_noticed(two_skills, skills_dir, kept_time):
    skill_registry.get_skills(two_skills)
    file = skills_dir / "pay/SKILL.md"
    before = file.stat()
    file.write_text(file.read_text().replace("Ask", "Beg"))
    if kept_time:
        os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert load_skill(two_skills, "pay").body == "Beg first."


def test_change_within_timestamp_resolution_is_noticed(
    two_skills, skills_dir, monkeypatch
):
    now = time.time_ns()
    coarse = skill_files.FileStamp(10, now, now, 1)
    monkeypatch.setattr(skill_files, "_stamp", lambda status: coarse)
    skill_registry.get_skills(two_skills)
    write_file(skills_dir, "pay/SKILL.md", "Beg first.")
    assert load_skill(two_skills, "pay").body == "Beg first."


def test_broken_skill_is_logged_and_can_return(two_skills, skills_dir, caplog):
    skill_registry.get_skills(two_skills)
    good = (skills_dir / "pay/SKILL.md").read_text()
    write_file(skills_dir, "pay/SKILL.md", "---\n")
    assert load_skill(two_skills, "pay") is None
    assert len(skill_warnings(caplog)) == 1
    write_file(skills_dir, "pay/SKILL.md", good)
    assert load_skill(two_skills, "pay")
    write_file(skills_dir, "pay/SKILL.md", "---\n")
    assert load_skill(two_skills, "pay") is None
    assert len(skill_warnings(caplog)) == 2


def test_unchanged_skill_is_not_read_again(two_skills, skills_dir, monkeypatch):
    old_ns = time.time_ns() - 60_000_000_000
    for name in ("pay", "review"):
        os.utime(skills_dir / name / "SKILL.md", ns=(old_ns, old_ns))
    skill_registry.get_skills(two_skills)
    read = []
    original = skill_files.read_file
    monkeypatch.setattr(
        skill_files,
        "read_file",
        lambda *args: read.append(args[1][0]) or original(*args),
    )
    skill_registry.refresh()
    assert read == []
    write_file(skills_dir, "pay/SKILL.md", "x")
    skill_registry.refresh()
    assert read == ["pay"]


def test_unreadable_folder_does_not_hide_the_others(
    two_skills, skills_dir, caplog, monkeypatch
):
    def look(folder, original=skill_files.list_folder):
        if folder.name == "pay":
            raise PermissionError(13, "Permission denied")
        return original(folder)

    monkeypatch.setattr(skill_files, "list_folder", look)
    assert list(skill_registry.get_skills(two_skills)) == ["review"]
    assert f"{skills_dir}/pay: cannot be read: Permission denied" in caplog.text
