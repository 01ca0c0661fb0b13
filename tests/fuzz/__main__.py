"""`make fuzz`: attacks the server, and fails if it errs, freezes or leaks memory.

python -m tests.fuzz                  # five minutes at most, always the same order
python -m tests.fuzz --seed 7         # other requests (or FUZZ_SEED=7)
python -m tests.fuzz --mode tokens --seconds 60
"""

import argparse
import os
import signal
import sys
import time
from types import FrameType

from tests.fuzz import report

MAX_SECONDS = 255
"""Time limit of a run with start and stop; `make fuzz` promises five minutes."""
GRACE_SECONDS = 25
"""Time after the limit until a run is aborted."""


class DeadlineExceeded(BaseException):
    """The run exceeded its time limit."""


def main() -> int:
    """Run, print the report, and return the exit code."""
    started_at = time.monotonic()
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz")
    seed = int(os.environ.get("FUZZ_SEED", "0"))
    parser.add_argument("--seed", type=int, default=seed)
    parser.add_argument("--seconds", type=int, default=MAX_SECONDS)
    parser.add_argument(
        "--mode", action="append", default=[], choices=["open", "basic", "tokens"]
    )
    parser.add_argument(
        "--exclude",
        action="append",
        default=[],
        metavar="TEXT",
        help="skip requests whose name contains this",
    )
    arguments = parser.parse_args()
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "coulisse_site.settings")
    signal.signal(signal.SIGALRM, _abort)
    signal.alarm(arguments.seconds + GRACE_SECONDS)
    import django

    django.setup()
    from tests.fuzz.run import Run

    deadline = started_at + arguments.seconds
    run = Run(arguments.seed, deadline, arguments.mode, arguments.exclude)
    try:
        run.attack()
    except DeadlineExceeded:
        run.problems.append("the run was aborted: it exceeded its time limit")
    finally:
        signal.alarm(0)
    return report.write(run, sys.stdout)


def _abort(number: int, frame: FrameType | None) -> None:
    raise DeadlineExceeded


if __name__ == "__main__":
    sys.exit(main())
