"""Measures recall on the database of the environment, with `[SIZES, OTHERS]` as JSON.

It is a process of its own, because a process has one database. In the vocabulary of
the texts a few words are frequent, as in any language, so the words of a question occur
in a quarter of all facts.
"""

import json
import os
import random
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from itertools import accumulate

import django
import numpy as np

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "coulisse_site.settings")
django.setup()

from django.core.management import call_command  # noqa: E402  apps must be ready first
from django.db import connection, transaction  # noqa: E402
from django.utils import timezone  # noqa: E402

from bench.turn_costs.plain_turns import quantile  # noqa: E402
from core.ids import UserId  # noqa: E402
from memory.models import Fact, Passage  # noqa: E402
from memory.recall import search  # noqa: E402
from memory.recall.index import corpus_cache  # noqa: E402
from memory.recall.types import Embedded, Query  # noqa: E402

DIMENSIONS = 384
BATCH_SIZE = 5_000
OTHER_USERS = 2_000
WARM_QUERIES = 100
COLD_QUERIES = 9
VOCABULARY = [f"word{n}x" for n in range(5_000)]
FREQUENCY = list(accumulate(1 / (n + 10) for n in range(5_000)))

INSERT_OTHERS_SQL = """
    WITH owners AS (
        SELECT n, md5((n %% %s)::text)::uuid AS user_id, gen_random_uuid() AS fact_id
        FROM generate_series(1, %s) n
    ), facts AS (
        INSERT INTO memory_fact (id, user_id, content, category, importance, status,
            is_pinned, source, agent, quote, held_for, said_at, created_at, updated_at)
        SELECT fact_id, user_id, 'other ' || n, 'general', 5, 'active', false, 'user',
            '', '', '', now(), now(), now() FROM owners
    )
    INSERT INTO memory_passage (user_id, fact_id, is_question, terms, embedder,
        dimensions, vector, embedding_error)
    SELECT user_id, fact_id, false,
        array_to_string(array(
            SELECT DISTINCT left(md5(user_id || floor(exp(random() * 8))::text), 12)
            FROM generate_series(1, 10) WHERE n IS NOT NULL
        ), ' ')::tsvector, 'bench', %s, array(
            SELECT random() - 0.5 FROM generate_series(1, %s) WHERE n IS NOT NULL
        )::real[]::vector, ''
    FROM owners
"""

rng = np.random.default_rng(1)


def words(count: int) -> str:
    return " ".join(random.choices(VOCABULARY, cum_weights=FREQUENCY, k=count))


def vector() -> Embedded:
    values = rng.standard_normal(DIMENSIONS).astype(np.float32)
    return Embedded("bench", values / np.linalg.norm(values))


def store_facts(users: list[UserId], count: int) -> None:
    """Store facts, distributed evenly among users."""
    now = timezone.now()
    for start in range(0, count, BATCH_SIZE):
        facts = [
            Fact(
                user_id=users[n % len(users)],
                content=words(10),
                source="user",
                said_at=now,
                created_at=now,
                updated_at=now,
            )
            for n in range(start, min(start + BATCH_SIZE, count))
        ]
        by_user: dict[UserId, list[Fact]] = {}
        for fact in facts:
            by_user.setdefault(UserId(fact.user_id), []).append(fact)
        with transaction.atomic():
            Fact.objects.bulk_create(facts, batch_size=500)
            for user, user_facts in by_user.items():
                Passage.objects.index_facts(
                    user, [(f.id, f.content, vector(), "") for f in user_facts]
                )


def store_other_users(count: int) -> None:
    if connection.vendor == "sqlite":
        store_facts([UserId(uuid.uuid4()) for _ in range(50)], count)
        return
    with connection.cursor() as cursor:
        for start in range(0, count, BATCH_SIZE * 10):
            batch = min(BATCH_SIZE * 10, count - start)
            cursor.execute(
                INSERT_OTHERS_SQL, [OTHER_USERS, batch, DIMENSIONS, DIMENSIONS]
            )


def measure(user: UserId, size: int) -> Iterator[tuple[str | int | float, ...]]:
    queries = [Query(words(6), vector()) for _ in range(WARM_QUERIES)]
    warm = queries[0]
    search.search_facts(user, warm, limit=5)
    kinds: dict[str, Callable[[Query], Query]] = {
        "words and meaning": lambda query: query,
        "words": lambda query: Query(query.text),
        "meaning": lambda query: Query("", query.embedded),
    }
    for kind, convert in kinds.items():
        yield size, kind, *_times(user, [convert(query) for query in queries])
    if connection.vendor == "sqlite":
        yield (
            size,
            "cold",
            *_times(user, queries[:COLD_QUERIES], corpus_cache.clear_cache),
        )


def _times(
    user: UserId, queries: list[Query], before: Callable[[], None] = lambda: None
) -> tuple[float, float, float]:
    """Return p50, p95 and the mean CPU time of this process, in milliseconds."""
    times: list[float] = []
    cpu = 0.0
    for query in queries:
        before()
        started_at, cpu_before = time.perf_counter(), time.process_time()
        search.search_facts(user, query, limit=5)
        times.append((time.perf_counter() - started_at) * 1e3)
        cpu += (time.process_time() - cpu_before) * 1e3
    return quantile(times, 0.5), quantile(times, 0.95), cpu / len(queries)


def main() -> None:
    sizes, others = json.loads(sys.argv[1])
    random.seed(1)
    call_command("migrate", verbosity=0)
    users = [UserId(uuid.uuid4()) for _ in sizes]
    for user, size in zip(users, sizes, strict=True):
        store_facts([user], size)
    store_other_users(others)
    with connection.cursor() as cursor:
        cursor.execute("VACUUM" if connection.vendor == "sqlite" else "VACUUM ANALYZE")
    results = [
        list(figures)
        for user, size in zip(users, sizes, strict=True)
        for figures in measure(user, size)
    ]
    print(json.dumps(results))


if __name__ == "__main__":
    main()
