"""`coulisse admin`: an alias of `studio`."""

from processes.management.commands import studio


class Command(studio.Command):
    """The same command."""
