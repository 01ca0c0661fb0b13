"""Recorded turns, the tree of their calls, and expenses outside turns."""

from telemetry.models.calls import ModelCall, RecordedCall, ToolCall
from telemetry.models.choices import ExpensePurpose, Origin, Outcome, ToolCallKind
from telemetry.models.expenses import Expense
from telemetry.models.hourly_totals import HourlyTotal, RolledHour
from telemetry.models.turn_totals import TurnTotals
from telemetry.models.turns import Turn, TurnQuerySet, VariantCounts

__all__ = [
    "Expense",
    "ExpensePurpose",
    "HourlyTotal",
    "ModelCall",
    "Origin",
    "Outcome",
    "RecordedCall",
    "RolledHour",
    "ToolCall",
    "ToolCallKind",
    "Turn",
    "TurnQuerySet",
    "TurnTotals",
    "VariantCounts",
]
