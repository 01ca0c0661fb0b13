"""The page at `/admin/memory`: select the user whose memory to view."""

from typing import Any

from rest_framework.response import Response

from access import user_lookup
from access.users import identity
from config import live
from memory import memory_settings
from memory.user_data import user_queries
from memory.user_data.user_queries import UserFilter
from studio.base.views import StudioView
from studio.user_pages.base_view import USERS_URL

USERS_SHOWN = 24


def respond_with_picker(face: StudioView) -> Response:
    """Return the page that selects a user; `?q=` filters the list."""
    config = live.current()
    wanted = face.request.query_params.get("q", "").strip()
    known = user_lookup.load_names(config)
    sought = UserFilter(
        user_lookup.match_users(wanted, known), user_lookup.id_range(wanted)
    )
    found, has_more = user_queries.page_users(
        user_filter=sought if wanted else None, limit=USERS_SHOWN
    )
    if wanted:
        known = {**dict.fromkeys(identity.possible_user_ids(wanted), wanted), **known}
    counts = user_queries.count_facts_by_status([person.user_id for person in found])
    memory = memory_settings.resolve_for_users(config)
    shown: dict[str, Any] = {
        "search_text": wanted,
        "has_more": has_more,
        "people": [
            {
                "name": known.get(person.user_id) or str(person.user_id),
                "address": f"{USERS_URL}/{person.user_id}/facts",
                "active_at": person.active_at,
                "facts": counts[person.user_id],
            }
            for person in found
        ],
        "embedder": None if memory is None else memory.embedder.id,
        "learner": memory.extraction_model if memory else None,
        "is_on": memory is not None,
    }
    return face.respond(shown)
