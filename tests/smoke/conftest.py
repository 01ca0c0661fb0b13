"""A runner, a provider and tests to run."""

from collections.abc import Callable

import pytest

from providers.fake import FakeProvider
from smoke import verdicts
from smoke.models import Run
from tests.smoke.stage import STAGE, Cast, launch
from tests.tasks.conftest import Working, wait_until
from tests.tasks.conftest import working as working


@pytest.fixture
def cast(
    working: Working, configure: Callable[[str], None], fake: FakeProvider
) -> Cast:
    """Who plays, with a runner at work."""
    configure(STAGE)
    return Cast(fake)


@pytest.fixture
def hold(working: Working) -> Callable[..., Run]:
    """Return a function that holds one conversation to its verdict."""

    def hold(name: str = "plums", **options: object) -> Run:
        (run,) = launch(name, **options)
        return closed(run, working)

    return hold


def closed(run: Run, working: Working) -> Run:
    """Return a run once it is closed."""

    def is_closed() -> bool:
        working.kick()
        verdicts.settle(run.pk)
        run.refresh_from_db()
        return run.finished_at is not None

    wait_until(is_closed)
    return run
