"""`coulisse reindex`: embed the stored texts with the current embedder."""

from typing import Any

import numpy as np
from django.core.management.base import CommandError, CommandParser

from access.audit import audit_events, audit_log
from access.audit.audit_events import AuditEvent
from config import live
from config.management.base import INTERRUPTED
from config.management.database_command import DatabaseCommand
from config.management.progress_bar import ProgressBar
from core.errors import CoulisseError
from memory import memory_settings
from memory.models import Passage
from memory.recall import embedding
from memory.recall.index import hnsw_index
from memory.recall.types import Embedded
from providers.embeddings.base import Embedder

BATCH_SIZE = 64
MAX_FAILURES = 3
"""Consecutive batches without any vector after which the service counts as down."""


class Command(DatabaseCommand):
    """Embed batch after batch; each is stored, so that another run continues."""

    help = (
        "Embed the texts without a vector of the current embedder. Can be interrupted "
        "and run again. Exits with 1 if texts remain."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        super().add_arguments(parser)
        parser.add_argument(
            "--batch", type=int, default=BATCH_SIZE, help="Texts per batch."
        )
        parser.add_argument(
            "--dry-run", action="store_true", help="Only count the texts."
        )

    def handle(self, **options: Any) -> None:
        if options["batch"] < 1:
            raise CommandError("--batch must be at least 1")
        embedder = self._embedder(options)
        total = Passage.objects.pending(embedder.id).count()
        self.stdout.write(f"{total:,} texts to embed with {embedder.id}")
        if options["dry_run"]:
            return
        try:
            done = self._embed(embedder, total, options["batch"])
            hnsw_index.ensure_index(embedder.id, embedder.dimensions)
        except KeyboardInterrupt as exc:
            message = "interrupted: run it again to continue"
            raise CommandError(message, returncode=INTERRUPTED) from exc
        if done:
            by = audit_events.terminal_actor()
            audit_log.write(
                AuditEvent("memory.reindex", by, embedder.id, {"embedded": done})
            )
        self.stdout.write(f"{done:,} embedded")
        remaining = Passage.objects.pending(embedder.id).count()
        if remaining:
            raise CommandError(f"{remaining:,} texts remain: run it again to continue")

    def _embedder(self, options: dict[str, Any]) -> Embedder:
        try:
            users = memory_settings.resolve_for_users(
                live.read_effective(self.config_path(options))
            )
        except CoulisseError as exc:
            raise CommandError(str(exc)) from exc
        if users is None:
            raise CommandError("memory is off: memory.user_state is not set")
        return users.embedder

    def _embed(self, embedder: Embedder, total: int, batch: int) -> int:
        """Embed the pending texts and return how many succeeded."""
        bar = ProgressBar(self.stderr, total)
        after = done = failures = 0
        pending = Passage.objects.pending(embedder.id).with_text()
        # Passages get a higher id with their vector, but are not listed again.
        while batch_texts := list(pending.filter(id__gt=after)[:batch]):
            after = batch_texts[-1].id
            embedded_texts, error = _embed_batch(embedder, batch_texts)
            Passage.objects.set_vectors(embedded_texts)
            done += len(embedded_texts)
            failures = 0 if embedded_texts else failures + 1
            if error:
                self.stderr.write(error)
            if failures == MAX_FAILURES:
                break
            bar.show(done)
        bar.end()
        return done


def _embed_batch(
    embedder: Embedder, batch_texts: list[Passage]
) -> tuple[list[tuple[Passage, Embedded, str]], str]:
    """Return the embedded passages, and why the others failed.

    The others keep their vectors: they may belong to another embedder that is used
    again later.
    """
    vectors, errors = embedding.embed_texts(
        embedder, [text.text for text in batch_texts]
    )
    # A text without content counts as embedded: it resembles nothing.
    nothing = Embedded(embedder.id, np.zeros(embedder.dimensions, np.float32))
    embedded_texts = [
        (text, vector or nothing, "")
        for text, vector, error in zip(batch_texts, vectors, errors, strict=True)
        if not error
    ]
    return embedded_texts, next(filter(None, errors), "")
