"""Pages about users ask the database as often, however much there is."""

import uuid
from datetime import UTC, datetime, timedelta

import pytest
from django.db import connection
from django.test import RequestFactory, override_settings
from django.test.utils import CaptureQueriesContext

from access.users import identity
from core.ids import UserId
from memory.models import Thread
from memory.user_data import user_queries
from studio.monitoring.turn_views import TurnListView, TurnView, UserTurnListView
from studio.security import accounts as staff
from studio.user_pages.conversations import ThreadListView
from studio.user_pages.fact_detail import FactView
from studio.user_pages.fact_list import FactListView
from studio.user_pages.score_list import UserScoresView
from studio.user_pages.user_views import UserDetailView, UserListView
from tests.memory.facts.saving import save
from tests.memory.user_data import sample_user
from tests.telemetry.sample_turns import nested_calls, store_turn

pytestmark = pytest.mark.database

NOW = datetime.now(UTC)


@pytest.fixture
def alice(server, user):
    user_id = identity.derive_user_id(user)
    sample_user.store_user_data(user_id)
    return user_id


def queries(face, **kwargs):
    """Return how many queries a page takes, in this very thread."""
    request = RequestFactory().get("/admin/users", headers={"Accept": "text/html"})
    request.user = staff.get_or_create_user("olga")
    with (
        override_settings(ROOT_URLCONF="coulisse_site.studio_urls"),
        CaptureQueriesContext(connection) as seen,
    ):
        answer = face.as_view()(request, **kwargs)
        if not answer.is_rendered:
            answer.render()
    assert answer.status_code == 200
    return len(seen)


def more(user_id):
    """Have there be more of everything."""
    for number in range(4):
        turn = store_turn(*nested_calls(), user_id=user_id, started_at=NOW)
        store_turn(
            *nested_calls(),
            user_id=user_id,
            started_at=NOW,
            outcome="error",
            error="no",
        )
        sample_user.store_conversation(
            user_id, f"more {number}", thread=f"thread {number}", turns=1
        )
        sample_user.store_scores(user_id, turn.turn_id, "plums")
        save(user_id, f"Likes {chr(97 + number) * 5}")


@pytest.mark.parametrize(
    "face",
    [UserDetailView, ThreadListView, FactListView, UserScoresView, UserTurnListView],
)
def test_user_page_query_count_is_constant(alice, face):
    queries(face, user=str(alice))
    few = queries(face, user=str(alice))
    more(alice)
    assert queries(face, user=str(alice)) == few <= 20


@pytest.mark.parametrize("face", [UserListView, TurnListView])
def test_list_page_query_count_is_constant(alice, face):
    few = queries(face)
    for _ in range(4):
        user_id = UserId(uuid.uuid4())
        sample_user.store_conversation(user_id, "plums")
        store_turn(*nested_calls(), user_id=user_id, started_at=NOW)
    assert queries(face) == few <= 9


def test_turn_and_fact_page_query_count_is_constant(alice):
    shallow, tree = (
        store_turn(user_id=alice),
        store_turn(*nested_calls(), user_id=alice),
    )
    assert queries(TurnView, id=str(shallow.turn_id)) == queries(
        TurnView, id=str(tree.turn_id)
    )
    name = f"mem_{sample_user.store_fact(alice, 'Likes figs').id.hex}"
    few = queries(FactView, user=str(alice), id=name)
    more(alice)
    assert queries(FactView, user=str(alice), id=name) == few


def test_users_are_read_in_three_queries(alice):
    with CaptureQueriesContext(connection) as seen:
        user_queries.page_users(limit=5)
    assert len(seen) == 3


def test_later_messages_determine_the_order(alice):
    Thread.objects.filter(user_id=alice, name="").update(
        updated_at=NOW + timedelta(days=80_000)
    )
    (first, *_), _ = user_queries.page_users(limit=5)
    assert first.user_id == alice
