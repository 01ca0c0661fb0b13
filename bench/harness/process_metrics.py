"""CPU time and memory of processes, from the operating system."""

import os
import time
from pathlib import Path

import psutil


def cpu_seconds(pid: int) -> float:
    """Return the CPU time a process has used, its threads included.

    Linux counts nanoseconds in schedstat; other systems count clock ticks.
    """
    try:
        tasks = list(Path(f"/proc/{pid}/task").iterdir())
        used = [int((task / "schedstat").read_text().split()[0]) for task in tasks]
    except OSError:
        times = psutil.Process(pid).cpu_times()
        return times.user + times.system
    return sum(used) / 1e9


def rss_mb(pid: int) -> float:
    """Return the resident memory of a process, in MB (2^20 bytes)."""
    return psutil.Process(pid).memory_info().rss / 2**20


class MachineLoad:
    """The load of other processes on this machine."""

    def __init__(self) -> None:
        self._at = time.monotonic()
        self._busy, self._stolen = _busy_and_stolen()
        self._own = sum(os.times()[:4])

    def report(self) -> str:
        """Describe the load since the start; call it after our processes have ended."""
        seconds = time.monotonic() - self._at
        busy, stolen = _busy_and_stolen()
        own = sum(os.times()[:4]) - self._own
        others = max(0.0, busy - self._busy - own) / seconds
        stolen = (stolen - self._stolen) / seconds
        noise = others + stolen
        verdict = "noisy" if noise > 0.15 else "calm"
        return (
            f"{verdict}: others used {others:.2f} cores, the host took {stolen:.2f}, "
            f"load average {psutil.getloadavg()[0]:.1f}"
        )


def _busy_and_stolen() -> tuple[float, float]:
    times = psutil.cpu_times()
    stolen = getattr(times, "steal", 0.0)
    return times.user + times.system + getattr(times, "nice", 0.0), stolen
