"""Measures quality on the database of the environment: `JOB OUTCOME`, both JSON files.

It is a process of its own, because a process has one database.
"""

import json
import os
import sys
from dataclasses import asdict
from pathlib import Path

import django

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "coulisse_site.settings")
django.setup()

from django.core.management import call_command  # noqa: E402  apps must be ready first
from django.db import connection  # noqa: E402

from bench.memory_search import dataset, deduplication, embeddings, question_ranks  # noqa: E402
from bench.memory_search.metrics import RETRIEVERS  # noqa: E402


def main() -> None:
    job, outcome = map(Path, sys.argv[1:])
    options = json.loads(job.read_text())
    call_command("migrate", verbosity=0)
    data = dataset.choose([Path(p) for p in options["transcripts"]], options["sample"])
    questions, pairs, embedding = [], [], {}
    for name in options["embedders"] or embeddings.available():
        print(f"  {name} …", file=sys.stderr, flush=True)
        vectors = embeddings.load_or_embed(name, data, job.parent)
        # Lexical search does not depend on the embedder.
        retrievers = RETRIEVERS[1:] if questions else RETRIEVERS
        questions += question_ranks.rank_answers(data, vectors, retrievers)
        pairs += deduplication.save_pairs(data.pairs, vectors)
        embedding[vectors.embedder] = vectors.milliseconds
    report = {
        "backend": connection.vendor,
        "questions": [asdict(one) for one in questions],
        "pairs": [asdict(one) for one in pairs],
        "embedding": embedding,
    }
    outcome.write_text(json.dumps(report))


if __name__ == "__main__":
    main()
