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


def respond_with_picker(view: StudioView) -> Response:
    """Return the page that selects a user; `?q=` filters the list."""
    config = live.current()
    search_text = view.request.query_params.get("q", "").strip()
    names = user_lookup.load_names(config)
    user_filter = UserFilter(
        user_lookup.match_users(search_text, names), user_lookup.id_range(search_text)
    )
    found, has_more = user_queries.page_users(
        user_filter=user_filter if search_text else None, limit=USERS_SHOWN
    )
    if search_text:
        names = {
            **dict.fromkeys(identity.possible_user_ids(search_text), search_text),
            **names,
        }
    counts = user_queries.count_facts_by_status([user.user_id for user in found])
    memory = memory_settings.resolve_for_users(config)
    data: dict[str, Any] = {
        "search_text": search_text,
        "has_more": has_more,
        "users": [
            {
                "name": names.get(user.user_id) or str(user.user_id),
                "address": f"{USERS_URL}/{user.user_id}/facts",
                "active_at": user.active_at,
                "facts": counts[user.user_id],
            }
            for user in found
        ],
        "embedder": None if memory is None else memory.embedder.id,
        "extraction_model": memory.extraction_model if memory else None,
        "is_on": memory is not None,
    }
    return view.respond(data)
