"""`coulisse completion`: scripts that complete commands and options in a shell."""

import argparse
from typing import Any

import shtab
from django.core.management import get_commands, load_command_class
from django.core.management.base import CommandParser

from config.management.base import ConfigCommand

PROGRAM = "coulisse"
PATHS = {"DIR": shtab.DIRECTORY, "FILE": shtab.FILE, "PATH": shtab.FILE}
"""The completion of options by the placeholder of their value."""


class Command(ConfigCommand):
    """Prints a script that needs no Python while the user types."""

    help = "Print a shell's completion script. Save it where the shell looks for them."

    def add_arguments(self, parser: CommandParser) -> None:
        super().add_arguments(parser)
        parser.add_argument("shell", choices=("bash", "fish", "zsh"))

    def handle(self, **options: Any) -> None:
        self.stdout.write(shtab.complete(build_parser(), options["shell"]))


def build_parser() -> argparse.ArgumentParser:
    """Return one parser of all commands, as a shell sees them."""
    parser = argparse.ArgumentParser(prog=PROGRAM)
    subparsers = parser.add_subparsers()
    for name, app in sorted(get_commands().items()):
        command = load_command_class(app, name)
        if isinstance(command, ConfigCommand):
            own = command.create_parser(PROGRAM, name)
            complete_paths(own)
            subparsers.add_parser(
                name,
                parents=[own],
                add_help=False,
                help=command.help.split(". ")[0],
            )
    return parser


def complete_paths(parser: argparse.ArgumentParser) -> None:
    """Let the shell complete files where an option takes one."""
    for action in parser._actions:
        if action.metavar in PATHS:
            action.complete = PATHS[action.metavar]  # type: ignore[attr-defined]
        if isinstance(action, argparse._SubParsersAction):
            for each in action.choices.values():
                complete_paths(each)
