"""The table of results."""

import math
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class Row:
    """One figure."""

    name: str
    value: float
    unit: str = ""
    target: float | None = None
    """Maximum value; None without a target."""
    digits: int = 0
    note: str = ""

    @property
    def verdict(self) -> str:
        if self.target is None:
            return ""
        return "ok" if self.value <= self.target else "MISSED"

    def as_json(self) -> dict[str, Any]:
        value = None if math.isnan(self.value) else self.value
        return {**asdict(self), "value": value, "verdict": self.verdict}

    def cells(self) -> tuple[str, str, str, str, str]:
        unit = f" {self.unit}" if self.unit and self.unit != "/s" else self.unit
        target = "" if self.target is None else f"≤ {self.target:,g}{unit}"
        value = f"{self.value:,.{self.digits}f}{unit}"
        return self.name, value, target, self.verdict, self.note


def render(rows: list[Row]) -> str:
    """Return aligned lines: figure, value, target, verdict, note."""
    cells = [("figure", "measured", "target", "", ""), *(row.cells() for row in rows)]
    widths = [max(len(row[column]) for row in cells) for column in range(4)]
    lines = [
        f"{name:<{widths[0]}}  {value:>{widths[1]}}  {target:<{widths[2]}}  "
        f"{verdict:<{widths[3]}}  {note}".rstrip()
        for name, value, target, verdict, note in cells
    ]
    return "\n".join([lines[0], "-" * max(map(len, lines)), *lines[1:]])
