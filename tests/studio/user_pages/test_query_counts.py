"""The number of queries of user pages does not depend on the amount of data."""

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


def count_queries(view, **kwargs):
    """Return the number of queries of a page, which runs in this thread."""
    request = RequestFactory().get("/admin/users", headers={"Accept": "text/html"})
    request.user = staff.get_or_create_user("olga")
    with (
        override_settings(ROOT_URLCONF="coulisse_site.studio_urls"),
        CaptureQueriesContext(connection) as captured,
    ):
        response = view.as_view()(request, **kwargs)
        if not response.is_rendered:
            response.render()
    assert response.status_code == 200
    return len(captured)


def add_data(user_id):
    """Add turns, threads, scores and facts."""
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
    "view",
    [UserDetailView, ThreadListView, FactListView, UserScoresView, UserTurnListView],
)
def test_user_page_query_count_is_constant(alice, view):
    count_queries(view, user=str(alice))
    few = count_queries(view, user=str(alice))
    add_data(alice)
    assert count_queries(view, user=str(alice)) == few <= 20


@pytest.mark.parametrize("view", [UserListView, TurnListView])
def test_list_page_query_count_is_constant(alice, view):
    few = count_queries(view)
    for _ in range(4):
        user_id = UserId(uuid.uuid4())
        sample_user.store_conversation(user_id, "plums")
        store_turn(*nested_calls(), user_id=user_id, started_at=NOW)
    assert count_queries(view) == few <= 9


def test_turn_and_fact_page_query_count_is_constant(alice):
    shallow, tree = (
        store_turn(user_id=alice),
        store_turn(*nested_calls(), user_id=alice),
    )
    assert count_queries(TurnView, id=str(shallow.turn_id)) == count_queries(
        TurnView, id=str(tree.turn_id)
    )
    name = f"mem_{sample_user.store_fact(alice, 'Likes figs').id.hex}"
    few = count_queries(FactView, user=str(alice), id=name)
    add_data(alice)
    assert count_queries(FactView, user=str(alice), id=name) == few


def test_users_are_read_in_three_queries(alice):
    with CaptureQueriesContext(connection) as captured:
        user_queries.page_users(limit=5)
    assert len(captured) == 3


def test_later_messages_determine_the_order(alice):
    Thread.objects.filter(user_id=alice, name="").update(
        updated_at=NOW + timedelta(days=80_000)
    )
    (first, *_), _ = user_queries.page_users(limit=5)
    assert first.user_id == alice
