"""What judges make of the replies a user got, and what the user says of them."""

from dataclasses import asdict
from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from judges.models import Feedback, Score
from judges.ratings import user_score_queries
from studio.base.pagination import listed, place
from studio.user_pages import conversation_serializers
from studio.user_pages import schemas as shapes
from studio.user_pages.base_view import AFTER, OfUser

PAGE = 50
MOST_FEEDBACK = 20


class UserScores(OfUser):
    """`/admin/users/{user}/scores`."""

    title = "Scores"
    template = "studio/users/scores.html"

    @extend_schema(
        summary="List the scores of a user's replies, the newest first",
        parameters=[AFTER],
        responses=shapes.ScoreList,
    )
    def get(self, request: Request, user: str) -> Response:
        """Return scores with their reasoning, their means, and the user's feedback."""
        after = place(request.query_params.get("after"), int)
        found, has_more = user_score_queries.page(self.user_id, after=after, limit=PAGE)
        data = listed(
            [_score(row) for row in found],
            has_more=has_more,
            last=(found[-1].judged_at, found[-1].pk) if found else None,
        )
        data["means"] = [
            asdict(mean) for mean in user_score_queries.means(self.user_id)
        ]
        said = user_score_queries.feedback(self.user_id, MOST_FEEDBACK)
        data["feedback"] = [_feedback(row) for row in said]
        return self.respond(data, page=lambda: {**self.user_context(), "tab": "scores"})


def _of(row: Score | Feedback) -> dict[str, Any]:
    return {
        "turn_id": str(row.turn_id),
        "agent": row.agent,
        "experiment": row.experiment or None,
    }


def _score(row: Score) -> dict[str, Any]:
    return {**conversation_serializers.score(row), **_of(row)}


def _feedback(row: Feedback) -> dict[str, Any]:
    return {**(conversation_serializers.feedback(row) or {}), **_of(row)}
