"""^C before a command has started."""

import os
import subprocess
import sys

import manage


def test_interrupt_while_loading_exits_quietly(tmp_path):
    (tmp_path / "pressed.py").write_text("raise KeyboardInterrupt\n")
    environment = {
        **os.environ,
        "DJANGO_SETTINGS_MODULE": "pressed",
        "PYTHONPATH": str(tmp_path),
    }
    ended = subprocess.run(
        [sys.executable, manage.__file__, "check"],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (ended.returncode, ended.stdout, ended.stderr) == (130, "", "")
