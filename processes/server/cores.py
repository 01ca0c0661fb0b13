"""The cores that the server may use."""

import os
from pathlib import Path

CGROUP_LIMIT = Path("/sys/fs/cgroup/cpu.max")
"""A container's share of the cores: microseconds per period, or `max`."""


def usable_cores() -> list[int]:
    """Return the numbers of the cores that this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return sorted(os.sched_getaffinity(0))
    return list(range(os.cpu_count() or 1))  # macOS


def count_cores() -> int:
    """Return how many cores the server can keep busy, at least one."""
    count = len(usable_cores())
    try:
        quota, period = CGROUP_LIMIT.read_text().split()
        count = min(count, int(quota) // int(period))
    except (OSError, ValueError):
        pass  # No container, or one without a limit.
    return max(count, 1)
