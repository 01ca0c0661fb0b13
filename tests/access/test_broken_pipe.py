"""Commands with an output pipe that closes early."""

import os
import subprocess
import sys

import pytest

COMMAND = """
import sys, django
django.setup()
from config.management.database_command import DatabaseCommand

class Command(DatabaseCommand):
    requires_system_checks = []

    def handle(self, **options):
        self.stdout.write("x" * int(sys.argv[1]))

Command().run_from_argv(["manage.py", "talk"])
"""


@pytest.mark.parametrize("length", [10, 1_000_000])
def test_broken_pipe_ends_the_command_silently(length):
    read, write = os.pipe()
    os.close(read)
    environment = {**os.environ, "DJANGO_SETTINGS_MODULE": "coulisse_site.settings"}
    ended = subprocess.run(
        [sys.executable, "-c", COMMAND, str(length)],
        check=False,
        env=environment,
        stderr=subprocess.PIPE,
        stdout=write,
        text=True,
    )
    os.close(write)
    assert (ended.returncode, ended.stderr) == (141, "")
