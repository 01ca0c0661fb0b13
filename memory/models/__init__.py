"""Models of conversations, extracted facts and the search index."""

from memory.models.extraction_jobs import ExtractionJob
from memory.models.facts import Fact, FactCategory, FactChange, FactSource, FactStatus
from memory.models.owners import Owner, PendingErasure
from memory.models.passages import Passage
from memory.models.threads import ConsolidationRun, StoredMessage, Summary, Thread

__all__ = [
    "ConsolidationRun",
    "ExtractionJob",
    "Fact",
    "FactCategory",
    "FactChange",
    "FactSource",
    "FactStatus",
    "Owner",
    "Passage",
    "PendingErasure",
    "StoredMessage",
    "Summary",
    "Thread",
]
