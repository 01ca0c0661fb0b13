"""`make fuzz`: attack the server, and fail where it fails, freezes or grows.

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

BOUND_SECONDS = 255
"""Of a whole run, with starting and stopping; `make fuzz` promises five minutes."""
LAST_SECONDS = 25
"""After which a run that does not end by itself is ended."""


class OutOfTime(BaseException):
    """The run did not end by itself."""


def main() -> int:
    """Run, print the report, and return the exit code."""
    begun = time.monotonic()
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz")
    seed = int(os.environ.get("FUZZ_SEED", "0"))
    parser.add_argument("--seed", type=int, default=seed)
    parser.add_argument("--seconds", type=int, default=BOUND_SECONDS)
    parser.add_argument(
        "--mode", action="append", default=[], choices=["open", "basic", "tokens"]
    )
    parser.add_argument(
        "--leave-out",
        action="append",
        default=[],
        metavar="TEXT",
        help="send no request whose name has this in it",
    )
    arguments = parser.parse_args()
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "coulisse_site.settings")
    signal.signal(signal.SIGALRM, _give_up)
    signal.alarm(arguments.seconds + LAST_SECONDS)
    import django

    django.setup()
    from tests.fuzz.run import Run

    until = begun + arguments.seconds
    run = Run(arguments.seed, until, arguments.mode, arguments.leave_out)
    try:
        run.attack()
    except OutOfTime:
        run.troubles.append("the run was ended: it took longer than it may")
    finally:
        signal.alarm(0)
    return report.write(run, sys.stdout)


def _give_up(number: int, frame: FrameType | None) -> None:
    raise OutOfTime


if __name__ == "__main__":
    sys.exit(main())
