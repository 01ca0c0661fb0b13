"""The command line before its command: the default, options alone, the version."""

import sys

import pytest
from django.core.management import load_command_class

import manage
from core.version import VERSION


@pytest.mark.parametrize(
    ("words", "completed"),
    [
        ([], ["start", "--foreground"]),
        (["-c", "team.yaml"], ["start", "--foreground", "-c", "team.yaml"]),
        (["-c", "a", "--help"], ["start", "--foreground", "-c", "a", "--help"]),
        (["status", "--ready"], ["status", "--ready"]),
        (["help"], ["help"]),
        (["--help"], ["--help"]),
        (["-h"], ["-h"]),
    ],
)
def test_start_in_the_foreground_is_the_default(words, completed):
    assert manage.complete_words(["coulisse", *words]) == ["coulisse", *completed]


@pytest.mark.parametrize("word", ["--version", "version"])
def test_version_is_that_of_coulisse(word, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["coulisse", word])
    manage.main()
    assert capsys.readouterr().out == f"coulisse {VERSION}\n"


def test_version_of_a_command_is_that_of_coulisse(capsys):
    with pytest.raises(SystemExit):
        load_command_class("processes", "start").run_from_argv(
            ["coulisse", "start", "--version"]
        )
    assert capsys.readouterr().out == f"{VERSION}\n"
