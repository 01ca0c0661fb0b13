"""The progress of a command."""

import time

from django.core.management.base import OutputWrapper

WIDTH = 30
"""The bar's width in characters."""


class ProgressBar:
    """A bar on a terminal, otherwise an occasional line."""

    def __init__(self, output: OutputWrapper, total: int) -> None:
        self._output = output
        self._total = max(total, 1)
        self._began = time.monotonic()
        self._next = 0.0

    def show(self, done: int) -> None:
        """Show how many are done, at a limited rate."""
        now = time.monotonic()
        if now < self._next and done < self._total:
            return
        share = min(done / self._total, 1.0)
        rate = done / max(now - self._began, 1e-9)
        text = f"{done:,} of {self._total:,} ({share:.0%}), {rate:,.0f}/s"
        if self._output.isatty():
            filled = "#" * int(share * WIDTH)
            self._output.write(f"\r[{filled:.<{WIDTH}}] {text}\x1b[K", str, "")
        else:
            self._output.write(text, str)
        self._next = now + (0.1 if self._output.isatty() else 10.0)

    def end(self) -> None:
        """End the bar's line."""
        if self._output.isatty():
            self._output.write("")
