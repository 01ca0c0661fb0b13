"""Counts the results of a soak test; `python -m bench.scenarios.soak_audit` reads the
test's log as JSON.
"""

import json
import os
import re
import sys
import time
from collections import Counter
from datetime import datetime
from pathlib import Path

import django

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "coulisse_site.settings")
django.setup()

from django.conf import settings  # noqa: E402  apps must be ready first

from judges.models import Score  # noqa: E402
from memory.models import StoredMessage  # noqa: E402
from tasks.models import Task  # noqa: E402
from telemetry.models import Turn  # noqa: E402

TICK = re.compile(r"cron:tick:(.+)")


def main() -> None:
    soak_log = json.loads(sys.stdin.read())
    _drain(soak_log["drain_seconds"])
    stored = Counter(
        StoredMessage.objects.filter(role="user").values_list("text", flat=True)
    )
    chats: dict[str, bool] = soak_log["chats"]
    tasks: dict[str, str] = soak_log["tasks"]
    done = {
        str(task)
        for task in Task.objects.filter(state="done").values_list("id", flat=True)
    }
    accepted = {prompt: task for prompt, task in tasks.items() if task}
    results = {
        "chats_lost": sum(
            answered and not stored[text] for text, answered in chats.items()
        ),
        "chats_twice": sum(stored[text] > 1 for text in chats),
        "tasks_not_done": sum(task not in done for task in accepted.values()),
        "tasks_not_once": sum(stored[prompt] != 1 for prompt in accepted),
        **_ticks(stored["tick"]),
        **_judge_counts(),
        "errored": Task.objects.filter(state="errored").count(),
        "open": _count_open(),
        "sidecar_starts": _sidecar_starts(),
    }
    print(json.dumps(results))


def _count_open() -> int:
    return (
        Task.objects.filter(state__in=["queued", "running"])
        .exclude(
            # The cron continues while the other tasks end.
            origin="trigger:tick"
        )
        .count()
    )


def _drain(seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while _count_open() and time.monotonic() < deadline:
        time.sleep(0.5)


def _ticks(stored: int) -> dict[str, float]:
    """Return the number of ticks that ran, of missed ticks, and of unfinished runs."""
    ticks = Task.objects.filter(origin="trigger:tick", state="done")
    times = sorted(
        datetime.fromisoformat(match[1])
        for key in ticks.values_list("key", flat=True)
        if (match := TICK.fullmatch(key or ""))
    )
    seconds = (times[-1] - times[0]).total_seconds() + 1 if times else 0
    return {
        "ticks": len(times),
        "ticks_missed": seconds - len(times),
        "ticks_not_done": abs(stored - len(times)),
    }


def _judge_counts() -> dict[str, int]:
    turns = Turn.objects.filter(agent="chat", outcome="ok").values_list("id", flat=True)
    scored = set(Score.objects.values_list("turn_id", flat=True))
    return {
        "judged": len(scored),
        "unjudged": sum(turn not in scored for turn in turns),
    }


def _sidecar_starts() -> int:
    log = Path(settings.COULISSE_CONFIG).parent / "log"
    return log.read_text(errors="replace").count("soaking")


if __name__ == "__main__":
    main()
