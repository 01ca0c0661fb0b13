"""API tokens: created, found by their digest, refused once invalid."""

import hashlib
import re
import threading
import uuid
from datetime import UTC, datetime, timedelta

import pytest
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext

from access.errors import NewTokenInvalid, TokenAmbiguous, TokenUnknown
from access.models import ApiToken, AuditEntry
from access.tokens import api_tokens, token_secrets
from access.tokens.token_cache import TokenCache
from access.users import caller
from tests.access.actors import ADA

pytestmark = [pytest.mark.database, pytest.mark.usefixtures("database")]

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)


def create_token(label="laptop", principal="alice", **terms):
    return api_tokens.create_token(label, principal, by=ADA, **{"now": NOW, **terms})


def find(secret, at=NOW):
    return ApiToken.objects.verify(token_secrets.digest(secret), at)


# Creation and lookup.


def test_secret_is_found_only_by_its_digest():
    row, secret = create_token()
    assert re.fullmatch(r"sk-coulisse-[A-Za-z0-9_-]{43}", secret)
    assert token_secrets.digest(secret) == hashlib.sha256(secret.encode()).hexdigest()
    assert find(secret) == caller.VerifiedToken(row.id, "laptop", "alice")
    assert find(secret[:-1]) is None
    assert find(f"{secret}x") is None
    assert find(token_secrets.digest(secret)) is None


@pytest.mark.parametrize(
    "secret", ["", "\0", "sk-coulisse-", "ü", "\udcff", "x" * 9999]
)
def test_any_text_is_looked_up_safely(secret):
    assert find(secret) is None


def test_secret_is_not_stored():
    row, secret = create_token()
    stored = repr(ApiToken.objects.filter(pk=row.pk).values_list().get())
    written = repr(AuditEntry.objects.filter(target=row.pk).values_list().get())
    for text in (stored, written):
        assert secret not in text
        assert secret.removeprefix(token_secrets.PREFIX) not in text
    assert token_secrets.digest(secret) in stored
    assert token_secrets.digest(secret) not in written


def test_tokens_with_equal_labels_are_distinct():
    (one, first), (two, second) = create_token(), create_token()
    assert one.id != two.id
    assert first != second


def test_lookup_is_one_indexed_query():
    _, secret = create_token()
    with CaptureQueriesContext(
        connection,
    ) as queries:
        find(secret)
    [query] = queries.captured_queries
    with transaction.atomic(), connection.cursor() as cursor:
        if connection.vendor == "sqlite":
            cursor.execute(f"EXPLAIN QUERY PLAN {query['sql']}")
        else:
            cursor.execute("SET LOCAL enable_seqscan = off")
            cursor.execute(f"EXPLAIN {query['sql']}")
        plan = str(cursor.fetchall())
    assert "INDEX" in plan.upper()


def test_lookup_returns_all_terms():
    row, secret = create_token(
        " ci ",
        " bob\u3000",
        budget="monthly",
        limit_micro_usd=20_000_000,
        expires_at=NOW + HOUR,
        agents=["writer", "coder", "writer"],
        history="client",
        client_users="separate",
    )
    assert find(secret) == caller.VerifiedToken(
        row.id,
        "ci",
        "bob",
        "monthly",
        20_000_000,
        frozenset({"coder", "writer"}),
        NOW + HOUR,
        "client",
        "separate",
        1,
    )


def test_token_expires_at_the_instant():
    _, secret = create_token(expires_at=NOW + HOUR)
    assert find(secret, NOW + HOUR - timedelta(microseconds=1)) is not None
    assert find(secret, NOW + HOUR) is None


# Invalid terms.


@pytest.mark.parametrize(
    ("terms", "param", "words"),
    [
        ({"label": " \t"}, "label", "is blank"),
        ({"label": "x" * 256}, "label", "256 characters; the maximum is 255"),
        ({"label": "a\nb"}, "label", "invisible characters"),
        ({"label": "a\0b"}, "label", "invisible characters"),
        ({"principal": ""}, "principal", "is blank"),
        ({"principal": "x" * 513}, "principal", "maximum is 512"),
        ({"principal": "al\u200bice"}, "principal", "invisible characters"),
        ({"principal": "alice\udcff"}, "principal", "invisible characters"),
        ({"budget": "weekly"}, "budget", "unlimited, total, monthly"),
        ({"limit_micro_usd": 1}, "limit_micro_usd", "needs a budget"),
        ({"budget": "total"}, "limit_micro_usd", "needs a limit"),
        ({"budget": "monthly"}, "limit_micro_usd", "needs a limit"),
        ({"budget": "total", "limit_micro_usd": -1}, "limit_micro_usd", "from 0"),
        ({"budget": "total", "limit_micro_usd": 2**63}, "limit_micro_usd", "from 0"),
        ({"expires_at": NOW}, "expires_at", "2026-11-21 12:00 UTC is in the past"),
        ({"agents": []}, "agents", "is empty"),
        ({"agents": ["writer", " "]}, "agents", "is blank"),
        ({"history": "all"}, "history", "auto, server, client, none"),
        ({"client_users": "all"}, "client_users", "refuse, ignore, separate"),
        (
            {"client_users": "separate", "principal": "ui/a"},
            "principal",
            "contains '/': remove it",
        ),
    ],
)
def test_invalid_terms_are_refused(terms, param, words):
    before = ApiToken.objects.count(), AuditEntry.objects.count()
    with pytest.raises(NewTokenInvalid, match=re.escape(words)) as caught:
        create_token(**terms)
    assert caught.value.param == param
    assert (ApiToken.objects.count(), AuditEntry.objects.count()) == before


@pytest.mark.parametrize("limit", [0, 1, 2**63 - 1])
def test_limits_are_exact_to_the_micro_dollar(limit):
    _, secret = create_token(budget="total", limit_micro_usd=limit)
    assert find(secret).limit_micro_usd == limit


# Revocation.


def test_revoked_token_is_refused_at_once_and_stays_so():
    row, secret = create_token()
    revoked, is_new = api_tokens.revoke(str(row.id), now=NOW, by=ADA)
    assert is_new
    assert (revoked.revoked_at, revoked.version) == (NOW, 2)
    assert find(secret) is None
    again, is_new = api_tokens.revoke(str(row.id), now=NOW + HOUR, by=ADA)
    assert not is_new
    assert (again.revoked_at, again.version) == (NOW, 2)


def test_concurrent_revocations_succeed_once():
    row, _ = create_token()
    outcomes = []
    barrier = threading.Barrier(4)

    def revoke():
        barrier.wait(60)
        outcomes.append(api_tokens.revoke(str(row.id), by=ADA)[1])
        connection.close()

    threads = [threading.Thread(target=revoke) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert sorted(outcomes) == [False, False, False, True]
    assert AuditEntry.objects.filter(action="token.revoke", target=row.pk).count() == 1


def with_id(text):
    row = ApiToken(
        id=uuid.UUID(text),
        digest=token_secrets.digest(str(uuid.uuid4())),
        label=text[:8],
        principal="alice",
        created_at=NOW,
    )
    row.save(force_insert=True)
    return row


def test_id_may_be_abbreviated():
    start = uuid.uuid4().hex[:7]
    one = with_id(f"{start}a{'0' * 24}")
    two = with_id(f"{start}b{'f' * 24}")
    for text in (f"{start}a", f"{start}A…", one.id.hex, str(one.id), f" {one.id} "):
        assert ApiToken.objects.by_id_prefix(text) == one
    assert ApiToken.objects.by_id_prefix(f"{start}bfffffffffffffffffffffff") == two
    with pytest.raises(TokenAmbiguous, match="several tokens begin with") as caught:
        api_tokens.revoke(start, by=ADA)
    assert str(one.id) in caught.value.message
    assert str(two.id) in caught.value.message
    assert not ApiToken.objects.filter(revoked_at=NOW, pk__in=[one.pk, two.pk]).exists()
    assert ApiToken.objects.by_id_prefix(f"{start}a").revoked_at is None


@pytest.mark.parametrize(
    "text", ["", "4f3", "not-an-id", "4f3c_", "%%%%", "٤٤٤٤", "0" * 33, "0" * 32]
)
def test_invalid_token_id_is_unknown(text):
    with pytest.raises(TokenUnknown):
        api_tokens.revoke(text, by=ADA)


# Audit entries.


def test_creation_and_revocation_are_audited():
    row, _ = create_token(budget="total", limit_micro_usd=5, agents=["writer"])
    api_tokens.revoke(str(row.id), by=ADA)
    api_tokens.revoke(str(row.id), by=ADA)
    revoked, minted = AuditEntry.objects.filter(target=str(row.id)).newest_first()
    assert (minted.action, revoked.action) == ("token.create", "token.revoke")
    assert {minted.actor, revoked.actor} == {ADA.name}
    assert {minted.origin, revoked.origin} == {ADA.origin}
    assert minted.details == {
        "label": "laptop",
        "principal": "alice",
        "budget": "total",
        "limit_micro_usd": 5,
        "agents": ["writer"],
    }
    assert revoked.details == {"label": "laptop", "principal": "alice"}


# The cache.


def token(principal="alice"):
    return caller.VerifiedToken(uuid.uuid4(), "laptop", principal)


def test_cache_returns_tokens_until_discarded():
    remembered = TokenCache()
    one, two = token(), token()
    remembered.put("1", one)
    remembered.put("2", two)
    assert remembered.get("1") is one
    assert remembered.get("3") is None
    remembered.discard(one.id)
    remembered.discard(one.id)
    assert remembered.get("1") is None
    assert remembered.get("2") is two


def test_cache_evicts_the_oldest():
    remembered = TokenCache(limit=2)
    one, two, three = token(), token(), token()
    for digest, each in (("1", one), ("2", two), ("2", two), ("3", three)):
        remembered.put(digest, each)
    assert [remembered.get(digest) for digest in "123"] == [None, two, three]
    remembered.discard(one.id)
    assert remembered.get("2") is two


def test_cache_is_thread_safe():
    remembered = TokenCache(limit=8)
    many = [token() for _ in range(64)]
    faults = []

    def use_cache():
        try:
            for each in many * 20:
                remembered.put(each.id.hex, each)
                assert remembered.get(each.id.hex) in (each, None)
                remembered.discard(each.id)
        except Exception as exc:
            faults.append(exc)

    threads = [threading.Thread(target=use_cache) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert faults == []
    assert not any(remembered.get(each.id.hex) for each in many)
