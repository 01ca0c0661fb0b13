"""The export of the API tokens that belong to users.

An erasure leaves them: they are the operator's.
"""

from collections.abc import Iterator
from typing import Any

from access.models import ApiToken
from access.tokens import token_queries
from core.text import timestamps
from database.user_data import Export, UserTable


def _describe(page: list[ApiToken]) -> Iterator[dict[str, Any]]:
    """Yield the API tokens of a user, without their digests."""
    for row in page:
        yield {
            "label": row.label,
            "created_at": timestamps.format_time(row.created_at),
            "expires_at": timestamps.format_time(row.expires_at),
            "revoked_at": timestamps.format_time(row.revoked_at),
        }


TABLES = (
    UserTable(
        "api_tokens",
        ApiToken,
        erased=None,
        export=Export("api_tokens", _describe, token_queries.user_tokens),
    ),
)
