"""A server that stops while a reply is on its way."""

from contextlib import ExitStack

import pytest

from tests.conftest import serve
from tests.gateway.calls import body, calling, stored

pytestmark = pytest.mark.database


@pytest.mark.parametrize("agent", ["assistant", "claude"])
def test_a_stream_that_outlasts_the_grace_is_kept_as_far_as_it_came(
    server, fake, user, agent
):
    fake.hang("mid_stream", "first", "second")
    with ExitStack() as stack:
        stopping = serve("coulisse_site.asgi:application", grace_seconds=0)
        request = body(user, agent=agent, stream=True)
        with stopping as url:
            caller = stack.enter_context(calling(url, request))
            caller.hear("first")
    assert stored(user) == [("user", "hi", ""), ("assistant", "first", "cancelled")]
    assert fake.requests[-1].aborted
