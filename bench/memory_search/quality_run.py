"""Measure on the database that the environment names: `JOB OUTCOME`, both JSON files.

A process of its own, for one process has one database.
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
from bench.memory_search.metrics import LEGS  # noqa: E402


def main() -> None:
    job, outcome = map(Path, sys.argv[1:])
    told = json.loads(job.read_text())
    call_command("migrate", verbosity=0)
    wanted = dataset.choose([Path(p) for p in told["transcripts"]], told["sample"])
    asked, tried, embedding = [], [], {}
    for name in told["embedders"] or embeddings.available():
        print(f"  {name} …", file=sys.stderr, flush=True)
        made = embeddings.load_or_embed(name, wanted, job.parent)
        # Words are the same whatever the embedder.
        legs = LEGS[1:] if asked else LEGS
        asked += question_ranks.ask(wanted, made, legs)
        tried += deduplication.try_pairs(wanted.pairs, made)
        embedding[made.embedder] = made.milliseconds
    report = {
        "backend": connection.vendor,
        "asked": [asdict(one) for one in asked],
        "tried": [asdict(one) for one in tried],
        "embedding": embedding,
    }
    outcome.write_text(json.dumps(report))


if __name__ == "__main__":
    main()
