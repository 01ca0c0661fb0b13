"""The cores that the server may use."""

import os
from pathlib import Path

CGROUP_LIMIT = Path("/sys/fs/cgroup/cpu.max")
"""A container's share of the cores: microseconds per period, or `max`. The root of a
machine's control groups has no such file."""
OWN_CGROUP = Path("/proc/self/cgroup")
CONTAINER_FILES = (Path("/.dockerenv"), Path("/run/.containerenv"))
"""Files that Docker and Podman put into their containers."""
CONTAINER_VARIABLES = ("KUBERNETES_SERVICE_HOST", "container")
"""Set by Kubernetes, and by Podman, LXC and systemd-nspawn."""


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


def owns_cores() -> bool:
    """Return whether this server may choose among all cores of the machine.

    The processes of several containers see the same cores and the same pids, so all of
    them would choose the same core. An operator who
    limits the cores of a process has chosen them.
    """
    return not is_in_container() and len(usable_cores()) == os.cpu_count()


def is_in_container() -> bool:
    """Return whether this process shares its machine with those of other containers."""
    return (
        os.getpid() == 1
        or any(name in os.environ for name in CONTAINER_VARIABLES)
        or any(path.exists() for path in (*CONTAINER_FILES, CGROUP_LIMIT))
        or _has_limited_cgroup()
    )


def _has_limited_cgroup() -> bool:
    """Return whether a control group, such as a systemd service, limits the cores."""
    try:
        lines = OWN_CGROUP.read_text().splitlines()
    except OSError:
        return False
    path = next((line[4:] for line in lines if line.startswith("0::/")), "")
    folder = CGROUP_LIMIT.parent
    for name in filter(None, path.split("/")):
        folder /= name
        limit = folder / CGROUP_LIMIT.name
        if limit.exists() and not limit.read_text().startswith("max"):
            return True
    return False
