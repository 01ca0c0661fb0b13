"""Options of several commands; `-c PATH` is read before the settings load, too."""

import argparse
from collections.abc import Callable, Sequence

VALUELESS_FLAGS = ("-6", "-E", "-F", "-y")
"""Short options without a value: `-c` may follow them, as in `-Fc PATH`."""


def add_option(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "-c",
        "--config",
        metavar="PATH",
        help="The YAML file (default: $COULISSE_CONFIG, else coulisse.yaml).",
    )


def add_limit(parser: argparse.ArgumentParser, noun: str, *, default: int) -> None:
    """Add the option `--limit` of a list."""
    parser.add_argument(
        "--limit",
        type=parse_count,
        default=default,
        help=f"Maximum number of {noun} (default: {default}).",
    )


def parse_count(text: str) -> int:
    """Return the value of an option that is at least 1."""
    if (number := int(text)) < 1:
        raise argparse.ArgumentTypeError("must be at least 1")
    return number


def add_subcommands(
    parser: argparse.ArgumentParser, *, is_required: bool = True
) -> Callable[[str, str], argparse.ArgumentParser]:
    """Add subcommands; return a function that adds one by name and help text."""
    subparsers = parser.add_subparsers(
        dest="what", metavar="COMMAND", required=is_required
    )

    def add(name: str, help_text: str) -> argparse.ArgumentParser:
        subparser: argparse.ArgumentParser = subparsers.add_parser(
            name, help=help_text, description=help_text, allow_abbrev=False
        )
        add_option(subparser)
        return subparser

    return add


def find_path(words: Sequence[str]) -> str | None:
    """Return the path in a command line, or None.

    The command itself reports invalid arguments.
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
