"""Consolidation: summaries of old conversations, so that prompts can cover them.

Prompts contain a summary instead of the messages it covers; the messages stay stored.
See docs/learning.md.
"""

import logging
import random
import time
from collections.abc import Sequence
from datetime import datetime, timedelta

from config import live
from core import token_estimates
from core.errors import CoulisseError
from core.ids import UserId, pseudonym
from core.runtime import shared_clock
from memory import memory_settings
from memory.extraction import llm_call
from memory.extraction.prompts import PromptMessage
from memory.facts import forgetting
from memory.memory_settings import ExtractionModel, UserMemory
from memory.models import ConsolidationRun, Summary, Thread
from memory.transcript.summaries import summarizable_ranges, summary_prompts
from memory.transcript.summaries.summarizable_ranges import SummarizableRange

logger = logging.getLogger(__name__)

MAX_SUMMARIES = 500
"""Summaries per run, which limits the cost of the model."""
MAX_SECONDS = 540.0
"""Seconds per run."""
MAX_FAILURES = 5
"""Consecutive failures after which a run ends: the model is unavailable."""
MAX_REWRITING_SECONDS = 120.0
"""Seconds for writing emptied summaries again, every ten minutes."""
FAILURES = (CoulisseError, TimeoutError, summary_prompts.SummaryInvalid)


def consolidate(
    now: datetime,
    *,
    dry_run: bool = False,
    force: bool = False,
    user_id: UserId | None = None,
) -> ConsolidationRun | None:
    """Summarise old conversations if it is time, and return the run.

    Returns None if memory is off, or if the last run was recent and `force` is not set;
    summaries that mentioned a forgotten fact are written again in any case.
    A dry run calls no model and writes no row; the returned run is not stored and
    counts what a real run would process. Of concurrent callers, one runs. `user_id`
    limits the run to that user's conversations.
    """
    user_memory = memory_settings.resolve_for_users(live.current())
    if user_memory is None:
        return None
    if not dry_run:
        _rewrite_empty_summaries(user_memory.extraction_model, user_id)
    hours = user_memory.memory.consolidation_interval_hours
    interval = None if force else timedelta(hours=hours)
    run = (
        ConsolidationRun(started_at=now, is_dry_run=True)
        if dry_run
        else ConsolidationRun.objects.start(now, interval=interval)
    )
    if run is not None:
        _Consolidator(run, user_memory, now).summarize_threads(user_id)
    return run


def _rewrite_empty_summaries(
    model: ExtractionModel | None, user_id: UserId | None
) -> None:
    """Write summaries again that were emptied to forget a fact."""
    if model is None:
        return
    until = time.monotonic() + MAX_REWRITING_SECONDS
    emptied = Summary.objects.all()
    if user_id is not None:
        emptied = emptied.filter(user_id=user_id)
    failures = 0
    while failures < MAX_FAILURES and time.monotonic() < until:
        summary = emptied.claim_empty(shared_clock.now())
        if summary is None:
            break
        failures = 0 if _rewrite(summary, model) else failures + 1


def _rewrite(summary: Summary, model: ExtractionModel) -> bool:
    """Write a claimed summary again; return whether the model could."""
    thread = summary.thread
    message_range = summarizable_ranges.next_range(
        thread, summary.first_position, summary.end_position
    )
    shown = message_range.shown_messages if message_range else []
    try:
        text = _write_summary(model, thread, shown)
    except FAILURES as exc:
        _log_failure(thread, exc)
        return False
    summary.rewrite(text, token_estimates.estimate_text(text))
    return True


class _Consolidator:
    """One run, which counts its results."""

    def __init__(
        self, run: ConsolidationRun, user_memory: UserMemory, now: datetime
    ) -> None:
        self._run = run
        self._user_memory = user_memory
        self._now = now
        self._until = time.monotonic() + MAX_SECONDS
        self._failures_in_a_row = 0

    def summarize_threads(self, user_id: UserId | None) -> None:
        """Summarise threads until all are done or a limit is reached."""
        run = self._run
        cutoff = self._now - timedelta(
            hours=self._user_memory.memory.consolidate_after_hours
        )
        threads = Thread.objects.summarizable()
        if user_id is not None:
            threads = threads.filter(user_id=user_id)
        thread_ids = list(threads.values_list("pk", flat=True))
        # Random order: threads on which the model fails must not block the others
        # forever.
        random.shuffle(thread_ids)
        try:
            for thread_id in thread_ids:
                if self._is_finished():
                    break
                self._summarize_thread(thread_id, cutoff)
        finally:
            run.finished_at = shared_clock.now()
            if not run.is_dry_run:
                run.save()

    def _is_finished(self) -> bool:
        run = self._run
        if self._failures_in_a_row >= MAX_FAILURES:
            run.error = f"ended after {MAX_FAILURES} failures in a row"
        elif run.summaries >= MAX_SUMMARIES or time.monotonic() >= self._until:
            run.error = run.UNFINISHED
        return bool(run.error)

    def _summarize_thread(self, thread_id: int, cutoff: datetime) -> None:
        thread = Thread.objects.filter(pk=thread_id).first()
        end = None if thread is None else thread.summarizable_end(cutoff)
        if thread is None or end is None:
            return
        self._run.threads += 1
        first = thread.summarized_until
        while first < end and not self._is_finished():
            message_range = summarizable_ranges.next_range(thread, first, end)
            if message_range is None or not self._summarize_range(
                thread, message_range
            ):
                return
            first = message_range.end

    def _summarize_range(
        self, thread: Thread, message_range: SummarizableRange
    ) -> bool:
        """Summarise a range of messages; return whether it is stored."""
        run = self._run
        if not run.is_dry_run:
            summary = self._build_summary(thread, message_range)
            if summary is None or not summary.store(self._now):
                return False
            run.tokens_after += summary.tokens
        run.summaries += 1
        run.messages += message_range.message_count
        run.tokens_before += message_range.tokens
        return True

    def _build_summary(
        self, thread: Thread, message_range: SummarizableRange
    ) -> Summary | None:
        """Return the model's summary, not yet stored; None if it gives none."""
        try:
            text = _write_summary(
                self._user_memory.extraction_model,
                thread,
                message_range.shown_messages,
            )
        except FAILURES as exc:
            self._run.failures += 1
            self._failures_in_a_row += 1
            _log_failure(thread, exc)
            return None
        self._failures_in_a_row = 0
        return Summary(
            user_id=thread.user_id,
            thread=thread,
            first_position=message_range.first,
            end_position=message_range.end,
            text=text,
            tokens=token_estimates.estimate_text(text),
            model=self._user_memory.extraction_model.model[:255]
            if self._user_memory.extraction_model
            else "",
            run=self._run,
            created_at=self._now,
        )


def _log_failure(thread: Thread, exc: Exception) -> None:
    logger.warning(
        "could not summarize thread %d of user %s: %s",
        thread.pk,
        pseudonym(thread.user_id),
        # Other errors may quote the conversation.
        exc if isinstance(exc, summary_prompts.SummaryInvalid) else type(exc).__name__,
    )


def _write_summary(
    model: ExtractionModel | None, thread: Thread, messages: Sequence[PromptMessage]
) -> str:
    if not messages:
        return "(no messages)"
    if model is None:
        raise summary_prompts.SummaryInvalid(
            "no extraction model: set memory.user_state.learn_from"
        )
    reply = llm_call.call_model(
        model,
        summary_prompts.build_prompt(messages),
        user=thread.user_id.hex,
    )
    text = summary_prompts.parse_summary(reply.text)
    if forgetting.mentions_forgotten_fact(UserId(thread.user_id), text):
        # Other messages than the withheld ones may have words of it.
        return "(not shown: it mentions what the user has forgotten)"
    return text
