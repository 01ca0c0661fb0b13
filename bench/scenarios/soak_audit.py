"""Count what came of a soak: `python -m bench.scenarios.soak_audit` reads its ledger as
JSON.
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
    told = json.loads(sys.stdin.read())
    _drain(told["drain_seconds"])
    said = Counter(
        StoredMessage.objects.filter(role="user").values_list("text", flat=True)
    )
    chats: dict[str, bool] = told["chats"]
    tasks: dict[str, str] = told["tasks"]
    done = {
        str(task)
        for task in Task.objects.filter(state="done").values_list("id", flat=True)
    }
    accepted = {prompt: task for prompt, task in tasks.items() if task}
    found = {
        "chats_lost": sum(was and not said[text] for text, was in chats.items()),
        "chats_twice": sum(said[text] > 1 for text in chats),
        "tasks_not_done": sum(task not in done for task in accepted.values()),
        "tasks_not_once": sum(said[prompt] != 1 for prompt in accepted),
        **_ticks(said["tick"]),
        **_judged(),
        "errored": Task.objects.filter(state="errored").count(),
        "open": _open(),
        "sidecar_starts": _sidecar_starts(),
    }
    print(json.dumps(found))


def _open() -> int:
    return (
        Task.objects.filter(state__in=["queued", "running"])
        .exclude(
            # The clock goes on while the last others are done.
            origin="trigger:tick"
        )
        .count()
    )


def _drain(seconds: float) -> None:
    until = time.monotonic() + seconds
    while _open() and time.monotonic() < until:
        time.sleep(0.5)


def _ticks(said: int) -> dict[str, float]:
    """Return how many ticks fired, and how many of the seconds between did not."""
    ticks = Task.objects.filter(origin="trigger:tick", state="done")
    moments = sorted(
        datetime.fromisoformat(match[1])
        for key in ticks.values_list("key", flat=True)
        if (match := TICK.fullmatch(key or ""))
    )
    seconds = (moments[-1] - moments[0]).total_seconds() + 1 if moments else 0
    return {
        "ticks": len(moments),
        "ticks_missed": seconds - len(moments),
        "ticks_not_done": abs(said - len(moments)),
    }


def _judged() -> dict[str, int]:
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
