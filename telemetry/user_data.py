"""The records of users' turns, for export and erasure."""

from database.user_data import Export, UserTable
from telemetry.models import ModelCall, ToolCall, Turn
from telemetry.schemas import StudioTurn

TABLES = (
    UserTable("turns", Turn, erased=52, export=Export("turns", StudioTurn)),
    UserTable("model_calls", ModelCall, erased=50, through="turn"),
    UserTable("tool_calls", ToolCall, erased=51, through="turn"),
)
