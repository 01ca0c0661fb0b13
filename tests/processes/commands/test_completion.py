"""The completion scripts of shells, in the shells that this machine has."""

import shutil
import subprocess
from pathlib import Path

import pytest
from django.core.management import call_command

import manage

DRIVERS = {
    "bash": """
        source "$0"
        COMP_WORDS=("$@") COMP_CWORD=$(($# - 1))
        _shtab_coulisse "$@"
        printf '%s\\n' "${COMPREPLY[@]}"
    """,
    "fish": """
        source $argv[1]
        complete -C "$argv[2..]" | string split -f 1 \\t; or true
    """,
}
"""Code that prints what a shell offers for the last of its words."""
SHELLS = [shell for shell in ("bash", "fish", "zsh") if shutil.which(shell)]
driven = pytest.mark.parametrize("shell", [each for each in SHELLS if each in DRIVERS])


@pytest.fixture(scope="module")
def scripts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory with a script for each shell."""
    root = tmp_path_factory.mktemp("completion")
    for shell in ("bash", "fish", "zsh"):
        with (root / shell).open("w") as file:
            call_command("completion", shell, stdout=file)
    return root


def complete(script: Path, *words: str) -> list[str]:
    command = [script.name, "-c", DRIVERS[script.name], str(script), "coulisse", *words]
    return subprocess.check_output(command, text=True).split()


@pytest.mark.parametrize("shell", SHELLS)
def test_script_parses(scripts: Path, shell: str) -> None:
    subprocess.run([shell, "-n", scripts / shell], check=True)


@driven
def test_commands_subcommands_and_options_are_offered(
    scripts: Path, shell: str
) -> None:
    script = scripts / shell
    assert {*complete(script, "")} >= manage.OWN_COMMANDS
    assert complete(script, "token", "") == ["create", "list", "revoke"]
    assert complete(script, "token", "create", "--bu") == ["--budget"]
    assert complete(script, "completion", "") == ["bash", "fish", "zsh"]


@driven
def test_files_are_offered_where_a_path_is_due(
    scripts: Path, shell: str, monkeypatch
) -> None:
    monkeypatch.chdir(scripts)
    assert complete(scripts / shell, "start", "-c", "fi") == ["fish"]
    assert complete(scripts / shell, "smoke", "run", "--junit", "zs") == ["zsh"]
