"""The option `-c PATH`: one rule, read before settings are and by each command."""

import argparse
from collections.abc import Callable, Sequence

VALUELESS_FLAGS = ("-F", "-y")
"""Short options without a value: `-c` may stand behind them, as in `-Fc PATH`."""


def add_option(parser: argparse.ArgumentParser) -> None:
    """Declare the option."""
    parser.add_argument(
        "-c",
        "--config",
        metavar="PATH",
        help="The YAML file (default: $COULISSE_CONFIG, else coulisse.yaml).",
    )


def add_subcommands(
    parser: argparse.ArgumentParser,
) -> Callable[[str, str], argparse.ArgumentParser]:
    """Have a command be several; return what adds one, by its name and what it does."""
    found = parser.add_subparsers(dest="what", metavar="COMMAND", required=True)

    def add(name: str, what: str) -> argparse.ArgumentParser:
        made: argparse.ArgumentParser = found.add_parser(
            name, help=what, description=what, allow_abbrev=False
        )
        add_option(made)
        return made

    return add


def find_path(words: Sequence[str]) -> str | None:
    """Return the path among a command's words, or None.

    What is wrong with the words is left to the command to say.
    """
    parser = argparse.ArgumentParser(
        add_help=False, allow_abbrev=False, exit_on_error=False
    )
    add_option(parser)
    for flag in VALUELESS_FLAGS:
        parser.add_argument(flag, action="store_true")
    try:
        path: str | None = parser.parse_known_args(words)[0].config
    except argparse.ArgumentError:
        return None
    return path
