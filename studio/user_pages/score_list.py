"""The scores of the replies to a user, and the user's feedback."""

from dataclasses import asdict
from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from judges.models import Feedback, Score
from judges.ratings import user_score_queries
from studio.base.pagination import parse_cursor, serialize_page
from studio.user_pages import conversation_serializers
from studio.user_pages import schemas as shapes
from studio.user_pages.base_view import AFTER_PARAMETER, UserView

PAGE_SIZE = 50
MAX_FEEDBACK = 20


class UserScoresView(UserView):
    """`/admin/users/{user}/scores`."""

    title = "Scores"
    template = "studio/users/scores.html"

    @extend_schema(
        summary="List the scores of a user's replies, newest first",
        parameters=[AFTER_PARAMETER],
        responses=shapes.ScoreList,
    )
    def get(self, request: Request, user: str) -> Response:
        """Return scores with their reasoning, their means, and the user's feedback."""
        after = parse_cursor(request.query_params.get("after"), int)
        found, has_more = user_score_queries.page_user_scores(
            self.user_id, after=after, limit=PAGE_SIZE
        )
        data = serialize_page(
            [_serialize_score(row) for row in found],
            has_more=has_more,
            last=(found[-1].judged_at, found[-1].pk) if found else None,
        )
        data["means"] = [
            asdict(mean) for mean in user_score_queries.mean_scores(self.user_id)
        ]
        feedback = user_score_queries.list_feedback(self.user_id, MAX_FEEDBACK)
        data["feedback"] = [_serialize_feedback(row) for row in feedback]
        return self.respond(data, page=lambda: {**self.user_context(), "tab": "scores"})


def _reply_fields(row: Score | Feedback) -> dict[str, Any]:
    return {
        "turn_id": str(row.turn_id),
        "agent": row.agent,
        "experiment": row.experiment or None,
    }


def _serialize_score(row: Score) -> dict[str, Any]:
    return {**conversation_serializers.serialize_score(row), **_reply_fields(row)}


def _serialize_feedback(row: Feedback) -> dict[str, Any]:
    return {
        **(conversation_serializers.serialize_feedback(row) or {}),
        **_reply_fields(row),
    }
