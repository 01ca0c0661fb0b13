"""The tables of smoke tests, with the rules of their rows."""

from smoke.models.messages import SmokeMessage
from smoke.models.runs import SmokeBatch, SmokeRun

__all__ = ["SmokeBatch", "SmokeMessage", "SmokeRun"]
