"""The API tokens that this process used recently."""

import threading
import uuid

from access.users.caller import VerifiedToken

MAX_CACHED = 10_000


class TokenCache:
    """The recently used tokens of this process; the oldest are evicted.

    A cached token may have been revoked or changed: callers validate its id and version
    in the database before they use it, and discard it if that fails.
    """

    def __init__(self, limit: int = MAX_CACHED) -> None:
        self._limit = limit
        self._tokens: dict[str, VerifiedToken] = {}
        self._digests: dict[uuid.UUID, str] = {}
        self._lock = threading.Lock()

    def put(self, digest: str, token: VerifiedToken) -> None:
        with self._lock:
            if digest not in self._tokens and len(self._tokens) >= self._limit:
                oldest = next(iter(self._tokens))
                self._digests.pop(self._tokens.pop(oldest).id, None)
            self._tokens[digest] = token
            self._digests[token.id] = digest

    def get(self, digest: str) -> VerifiedToken | None:
        return self._tokens.get(digest)

    def discard(self, token_id: uuid.UUID) -> None:
        """Remove a token, so that the next request reads it from the database."""
        with self._lock:
            digest = self._digests.pop(token_id, None)
            if digest is not None:
                self._tokens.pop(digest, None)


TOKEN_CACHE = TokenCache()
"""The cache of this process."""
