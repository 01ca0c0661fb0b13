"""The model of sessions."""

import uuid
from datetime import datetime

from django.db import models
from django.db.models import Count, Q, QuerySet

from memory.config import MAX_COMMENT_LENGTH
from memory.models.fact_choices import HUMAN_SOURCES, FactStatus
from memory.models.facts import Fact
from memory.models.messages import StoredMessage, StoredMessageQuerySet
from memory.models.passages import Passage
from memory.models.threads import Thread


class EndReason(models.TextChoices):
    """Why a session ended."""

    REQUEST = "request"
    IDLE = "idle"
    SHUTDOWN = "shutdown"


class SessionQuerySet(models.QuerySet["Session"]):
    """Ended sessions of threads."""

    def newest_first(self) -> "SessionQuerySet":
        return self.order_by("-ended_at", "-id")

    def covering(self, thread_id: int, first: int, last: int) -> "SessionQuerySet":
        """Return those of a thread with messages at `first <= position <= last`."""
        return self.filter(
            thread_id=thread_id, first_position__lte=last, end_position__gt=first
        )

    def replaceable(self) -> "SessionQuerySet":
        """Return those whose episode the server may write again: it is neither
        forgotten nor set by a person."""
        by_person = Q(episode__is_pinned=True) | Q(episode__source__in=HUMAN_SOURCES)
        known = self.filter(episode__isnull=False)
        return known.exclude(by_person).exclude(episode__status=FactStatus.DELETED)

    def delete_episodes(self) -> "list[Session]":
        """Delete the episodes of these sessions, and return these sessions.

        Call it under the lock of the user's facts.
        """
        sessions = list(self.filter(episode__isnull=False))
        for session in sessions:
            facts = Fact.objects.filter(session=session)
            Passage.objects.unindex(session.user_id, fact__in=facts)
            facts.delete()
        return sessions


class Session(models.Model):
    """A part of a thread, from its first turn after a pause to its end.

    While a session is open, only its thread has it (`Thread.session_start`), so that
    turns write no further row.
    """

    id = models.UUIDField(primary_key=True, default=uuid.uuid4)
    user_id = models.UUIDField()
    thread = models.ForeignKey(Thread, on_delete=models.CASCADE)
    first_position = models.BigIntegerField()
    end_position = models.BigIntegerField()
    started_at = models.DateTimeField()
    ended_at = models.DateTimeField()
    reason = models.CharField(max_length=16, choices=EndReason)
    closed_at = models.DateTimeField(null=True)
    """When all that follows an end was done: the episode is written, held facts are
    promoted."""
    episode = models.OneToOneField(
        Fact, null=True, on_delete=models.SET_NULL, related_name="session"
    )
    error = models.TextField(blank=True, default="")
    """Why it has no episode, if writing it failed."""
    score = models.SmallIntegerField(null=True)
    """The user's rating, from 0 to 10, as on replies."""
    comment = models.CharField(max_length=MAX_COMMENT_LENGTH, blank=True, default="")

    objects = SessionQuerySet.as_manager()

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["thread", "first_position"], name="memory_session_place"
            ),
            models.CheckConstraint(
                condition=Q(score__isnull=True) | Q(score__range=(0, 10)),
                name="memory_session_score",
            ),
        ]
        indexes = [
            models.Index(
                fields=["user_id", "-ended_at"], name="memory_session_of_user"
            ),
            models.Index(fields=["-ended_at", "-id"], name="memory_session_newest"),
        ]

    def __str__(self) -> str:
        return f"session of {self.started_at:%Y-%m-%d %H:%M}"

    @property
    def state(self) -> str:
        """`ending` until its episode is written, then `closed`."""
        return "ending" if self.closed_at is None else "closed"

    @property
    def episode_text(self) -> str | None:
        """The text of its episode, or None if that is held for review or forgotten."""
        episode = self.episode
        is_shown = episode is not None and episode.status == FactStatus.ACTIVE
        return episode.content if episode is not None and is_shown else None

    @property
    def messages(self) -> StoredMessageQuerySet:
        """Its messages, oldest first."""
        of_thread = StoredMessage.objects.of_thread(self.thread_id)
        return of_thread.since(self.first_position).before(self.end_position)

    @property
    def learned_messages(self) -> QuerySet[StoredMessage]:
        """Its messages that search finds: those of turns from which nothing may be
        learned are missing, and so are withheld ones."""
        return self.messages.for_models().filter(passage__isnull=False)

    @property
    def scopes(self) -> list[str]:
        """The scopes of its messages; that of the most comes first."""
        counted = self.learned_messages.order_by().values_list("passage__scope")
        rows = counted.annotate(count=Count("pk")).order_by("-count", "passage__scope")
        return [scope for scope, _ in rows]

    def rate(self, *, score: int | None = None, comment: str = "") -> bool:
        """Store what is given of the user's feedback; False if it was deleted."""
        given = {"score": score, "comment": comment or None}
        values = {name: value for name, value in given.items() if value is not None}
        self.__dict__.update(values)
        return bool(Session.objects.filter(pk=self.pk).update(**values))

    def close(self, now: datetime, *, episode: Fact | None, error: str = "") -> None:
        """Note that all that follows its end is done."""
        self.closed_at, self.episode, self.error = now, episode, error
        self.save(update_fields=["closed_at", "episode", "error"])
