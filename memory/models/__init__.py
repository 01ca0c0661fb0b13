"""Models of conversations, extracted facts and the search index."""

from memory.models.agent_states import AgentState
from memory.models.completions import StoredCompletion
from memory.models.fact_changes import FactChange
from memory.models.fact_choices import FactCategory, FactSource, FactStatus
from memory.models.fact_messages import FactMessage
from memory.models.facts import Fact
from memory.models.messages import StoredMessage
from memory.models.owners import Erasure, Owner, PendingErasure
from memory.models.passages import Passage
from memory.models.pending_forgettings import PendingForgetting
from memory.models.sessions import Session
from memory.models.threads import ConsolidationRun, Summary, Thread
from memory.models.users import EndUser

__all__ = [
    "AgentState",
    "ConsolidationRun",
    "EndUser",
    "Erasure",
    "Fact",
    "FactCategory",
    "FactChange",
    "FactMessage",
    "FactSource",
    "FactStatus",
    "Owner",
    "Passage",
    "PendingErasure",
    "PendingForgetting",
    "Session",
    "StoredCompletion",
    "StoredMessage",
    "Summary",
    "Thread",
]
