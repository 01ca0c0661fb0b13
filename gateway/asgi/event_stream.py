"""A response of server-sent events."""

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping

from django.http import StreamingHttpResponse

from core.errors import CoulisseError


class EventStream(StreamingHttpResponse):
    """A stream of frames that is closed as soon as the client leaves.

    Django wraps a streaming response's iterator in generators without closing them, so
    the turn would notice a disconnect only when they are collected.
    """

    def __init__(
        self,
        frames: AsyncGenerator[bytes],
        *,
        headers: Mapping[str, str] | None = None,
        encode_shutdown: Callable[[CoulisseError], bytes] | None = None,
    ) -> None:
        super().__init__(content_type="text/event-stream", headers=headers)
        self.headers["Cache-Control"] = "no-cache, no-store"
        # Reverse proxies (nginx) would delay tokens.
        self.headers["X-Accel-Buffering"] = "no"
        self._frames = frames
        self.encode_shutdown = encode_shutdown
        """Returns the frames that end it with an error, when the server stops."""
        self.is_async = True

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self._frames
