"""The number of queries of user pages does not depend on the amount of data."""

import uuid
from datetime import UTC, datetime, timedelta

import pytest
from django.contrib import admin
from django.db import connection
from django.test import RequestFactory, override_settings
from django.test.utils import CaptureQueriesContext
from django.urls import ResolverMatch

from access.authentication import accounts as staff
from access.users import identity
from admin_base.model_pages import view_factory
from core.ids import UserId
from judges.models import Feedback, Score
from memory.models import EndUser, Fact, StoredMessage, Thread
from telemetry.models import Turn
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
    request.resolver_match = ResolverMatch(view, (), kwargs)
    with (
        override_settings(ROOT_URLCONF="coulisse_site.studio_urls"),
        CaptureQueriesContext(connection) as captured,
    ):
        response = view(request, **kwargs)
        if not response.is_rendered:
            response.render()
    assert response.status_code == 200
    return len(captured)


def views_of(model):
    """Return the views of a table."""
    table = admin.site._registry[model]
    return view_factory.build_views(table, table.path)


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


def test_user_page_query_count_is_constant(alice):
    view = views_of(Fact).list
    count_queries(view, user=str(alice))
    few = count_queries(view, user=str(alice))
    add_data(alice)
    assert count_queries(view, user=str(alice)) == few <= 20


def test_conversation_query_count_is_constant(alice):
    view = views_of(EndUser).detail
    count_queries(view, id=str(alice))
    few = count_queries(view, id=str(alice))
    add_data(alice)
    assert count_queries(view, id=str(alice)) == few <= 20


@pytest.mark.parametrize(
    "model", [EndUser, StoredMessage, Thread, Turn, Score, Feedback]
)
def test_list_page_query_count_is_constant(alice, model):
    view = views_of(model).list
    few = count_queries(view)
    for _ in range(4):
        user_id = UserId(uuid.uuid4())
        sample_user.store_conversation(user_id, "plums")
        turn = store_turn(*nested_calls(), user_id=user_id, started_at=NOW)
        sample_user.store_scores(user_id, turn.turn_id, "plums")
    assert count_queries(view) == few <= 9


def test_turn_and_fact_page_query_count_is_constant(alice):
    shallow, tree = (
        store_turn(user_id=alice),
        store_turn(*nested_calls(), user_id=alice),
    )
    view = views_of(Turn).detail
    assert count_queries(view, id=str(shallow.turn_id)) == count_queries(
        view, id=str(tree.turn_id)
    )
    name = f"mem_{sample_user.store_fact(alice, 'Likes figs').id.hex}"
    view = views_of(Fact).detail
    few = count_queries(view, user=str(alice), id=name)
    add_data(alice)
    assert count_queries(view, user=str(alice), id=name) == few


def test_later_messages_determine_the_order(alice):
    Thread.objects.filter(user_id=alice, name="").update(
        updated_at=NOW + timedelta(days=80_000)
    )
    first = EndUser.objects.order_by("-active_at").first()
    assert first.pk == alice
