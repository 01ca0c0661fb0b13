"""The option `-c PATH`, as the settings and the commands read it."""

import os
from pathlib import Path

import pytest
from django.core.management import CommandError, get_commands, load_command_class

import manage
from config.management import config_option
from config.management.base import ConfigCommand

ROOT = Path(manage.__file__).parent
OURS = {folder.parent.parent.name for folder in ROOT.glob("*/management/commands")}
"""The apps with commands."""


def commands():
    """Every command that declares the option, by name."""
    loaded = {
        name: load_command_class(app, name)
        for name, app in get_commands().items()
        if app in OURS
    }
    assert all(isinstance(command, ConfigCommand) for command in loaded.values())
    return loaded


def parser(name):
    return commands()[name].create_parser("manage.py", name)


@pytest.mark.parametrize(
    "words",
    [
        [],
        ["-c", "b/c.yaml"],
        ["-c../b/c.yaml"],
        ["-c=c.yaml"],
        ["--config", "c.yaml"],
        ["--config=c.yaml"],
        ["-Fc", "c.yaml"],
        ["-Fcc.yaml", "--timeout", "3"],
        ["-c", "a.yaml", "-v", "2", "-cb.yaml"],
    ],
)
def test_option_path_equals_the_commands_path(words):
    assert config_option.find_path(words) == parser("start").parse_args(words).config


@pytest.mark.parametrize("words", [["--conf", "c.yaml"], ["-c"], ["-C", "c.yaml"]])
def test_refused_arguments_yield_no_path(words):
    assert config_option.find_path(words) is None
    with pytest.raises(CommandError):
        parser("start").parse_args(words)


def test_every_command_with_the_option_is_known(monkeypatch):
    assert commands().keys() == manage.OWN_COMMANDS
    for name in commands():
        monkeypatch.setenv("COULISSE_CONFIG", "")
        manage.take_config_option(["manage.py", name, "-cother.yaml"])
        assert os.environ["COULISSE_CONFIG"] == "other.yaml"


def test_options_without_value_are_known():
    found = {
        spelling
        for name in commands()
        for action in parser(name)._actions
        for spelling in action.option_strings
        if action.nargs == 0 and len(spelling) == 2 and spelling != "-h"
    }
    assert found == set(config_option.VALUELESS_FLAGS)


def test_config_option_of_other_commands_is_ignored(monkeypatch):
    monkeypatch.setenv("COULISSE_CONFIG", "mine.yaml")
    manage.take_config_option(["manage.py", "shell", "-c", "print()"])
    assert os.environ["COULISSE_CONFIG"] == "mine.yaml"
