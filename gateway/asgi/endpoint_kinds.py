"""The endpoint of a request, for metrics: one of a few names, whatever its path."""

from functools import lru_cache

API = "/v1/"
OTHER = "other"
API_KINDS = frozenset(
    {
        "chat",
        "completions",
        "conversations",
        "embeddings",
        "feedback",
        "files",
        "mcp",
        "memories",
        "messages",
        "models",
        "moderations",
        "realtime",
        "responses",
        "tasks",
        "threads",
        "turns",
        "users",
    }
)
"""The first part of the paths under `/v1`."""
OTHER_KINDS = frozenset({"", "admin", "health", "hooks", "mcp", "metrics"})


@lru_cache(maxsize=64)
def find_kind(path: str) -> str:
    """Return the beginning of the path if it is an endpoint's, such as `/v1/chat`."""
    is_api = path.startswith(API)
    first = path[len(API) if is_api else 1 :].partition("/")[0]
    if is_api:
        return f"{API}{first}" if first in API_KINDS else OTHER
    return f"/{first}" if first in OTHER_KINDS else OTHER
