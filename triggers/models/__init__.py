"""Tables of triggers: periodic agent tasks, counters, and starts of the server."""

from triggers.models.periodic_agent_task import PeriodicAgentTask
from triggers.models.server_start import ServerStart
from triggers.models.trigger_state import TriggeredTask, TriggerState

__all__ = ["PeriodicAgentTask", "ServerStart", "TriggerState", "TriggeredTask"]
