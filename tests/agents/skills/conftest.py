"""Fixtures of the tests of skills."""

import logging

import pytest

from config.sections import Config
from tests.agents.skills.skill_harness import write_file


@pytest.fixture
def skills_dir(tmp_path, caplog):
    """The directory of skills; its messages are captured from level INFO."""
    caplog.set_level(logging.INFO)
    folder = tmp_path / "skills"
    folder.mkdir()
    return folder


@pytest.fixture
def config(tmp_path):
    return Config(tmp_path / "coulisse.yaml", {})


@pytest.fixture
def two_skills(skills_dir, config):
    """A configuration with two skills that have files."""
    write_file(
        skills_dir, "review/SKILL.md", "---\ndescription: Review.\n---\nRead rubric.md."
    )
    write_file(skills_dir, "review/rubric.md", "# Rubric")
    write_file(skills_dir, "review/templates/letter.md", "Dear {name}")
    write_file(skills_dir, "pay/SKILL.md", "---\ndescription: Pay.\n---\nAsk first.")
    write_file(skills_dir, "pay/secret.md", "the budget")
    return config
