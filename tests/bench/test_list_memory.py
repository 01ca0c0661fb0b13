"""The memory that the studio's lists take with many users."""

import os
import subprocess
import sys

CONFIG = """
providers: {local: }
agents: [{name: desk, provider: local, model: smollm2-135m}]
"""


def test_lists_of_many_users_take_bounded_memory(tmp_path):
    """Of 100,000 users, whose spending as JSON has 22 MB."""
    path = tmp_path / "coulisse.yaml"
    path.write_text(CONFIG)
    env = {**os.environ, "DATABASE_URL": "", "COULISSE_CONFIG": str(path)}
    for command in (
        ["bulk-rows", "--turns", "100000", "--users", "100000", "--days", "20"],
        ["list-memory"],
    ):
        done = subprocess.run(
            [sys.executable, "-m", "bench", *command, "-c", str(path)],
            capture_output=True,
            text=True,
            env=env,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
    lines = done.stdout.splitlines()
    [spending] = [
        each for each in lines if "by=user" in each and "application/json" in each
    ]
    assert int(spending.split()[2].replace(",", "")) > 20_000_000
