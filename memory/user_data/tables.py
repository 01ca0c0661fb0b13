"""The tables of user data in this app, for export and erasure."""

from django.db.models import QuerySet

from core.ids import UserId
from database.user_data import Export, UserTable
from memory.models import (
    ExtractionJob,
    Fact,
    FactChange,
    Owner,
    Passage,
    StoredMessage,
    Summary,
    Thread,
)
from memory.user_data import export_serializers


def _summaries_of(user_id: UserId) -> QuerySet[Summary]:
    # Via the thread, which has an index.
    of_user = Summary.objects.filter(thread__user_id=user_id)
    return of_user.select_related("thread")


def _jobs_of(user_id: UserId) -> QuerySet[ExtractionJob]:
    return ExtractionJob.objects.filter(user_id=user_id).select_related("thread")


def _passages_of(user_id: UserId) -> QuerySet[Passage]:
    of_user = Passage.objects.filter(user_id=user_id)
    # The text is in the lists above; the encoded forms are not readable.
    return of_user.select_related("thread").defer("terms", "window_terms", "vector")


TABLES = (
    # Includes their messages.
    UserTable("threads", Thread, erased=46, export=Export("threads", describe=None)),
    UserTable("messages", StoredMessage, erased=45, through="thread"),
    # Includes their history.
    UserTable(
        "facts",
        Fact,
        erased=42,
        export=Export("memories", export_serializers.serialize_facts),
    ),
    UserTable("fact_changes", FactChange, erased=41),
    UserTable(
        "summaries",
        Summary,
        erased=44,
        through="thread",
        export=Export(
            "summaries", export_serializers.serialize_summaries, _summaries_of
        ),
    ),
    UserTable(
        "extraction_jobs",
        ExtractionJob,
        erased=43,
        export=Export("extraction_jobs", export_serializers.serialize_jobs, _jobs_of),
    ),
    UserTable(
        "passages",
        Passage,
        erased=40,
        export=Export("passages", export_serializers.serialize_passages, _passages_of),
    ),
    # Last, because an erasure holds its lock.
    UserTable("owners", Owner, erased=90),
)
