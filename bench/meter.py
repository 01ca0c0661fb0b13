"""What the operating system says a process costs."""

from pathlib import Path

import psutil


def cpu_seconds(pid: int) -> float:
    """Return the CPU time a process has used, its threads included.

    Linux counts nanoseconds in schedstat; elsewhere the clock ticks are taken.
    """
    try:
        tasks = list(Path(f"/proc/{pid}/task").iterdir())
        used = [int((task / "schedstat").read_text().split()[0]) for task in tasks]
    except OSError:
        times = psutil.Process(pid).cpu_times()
        return times.user + times.system
    return sum(used) / 1e9


def rss_mb(pid: int) -> float:
    """Return the memory a process holds, in MB (2^20 bytes)."""
    return psutil.Process(pid).memory_info().rss / 2**20


class Weather:
    """How busy the machine is with what is not ours."""

    def __init__(self) -> None:
        self._started = psutil.cpu_times()

    def report(self) -> str:
        now = psutil.cpu_times()
        total = sum(now[:8]) - sum(self._started[:8])
        stolen = getattr(now, "steal", 0.0) - getattr(self._started, "steal", 0.0)
        load = ", ".join(f"{value:.1f}" for value in psutil.getloadavg())
        return f"load average {load}; {100 * stolen / max(total, 1e-9):.1f} % stolen"
