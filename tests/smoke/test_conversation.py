"""A persona and an agent talk."""

from collections.abc import Callable

import pytest

from smoke.models import Run
from tests.smoke.stage import Cast, said

pytestmark = pytest.mark.database

Hold = Callable[..., Run]


def test_they_talk_until_the_persona_is_content(cast: Cast, hold: Hold):
    cast.persona = ["Any plums?", "Thanks! [FIN]"]

    run = hold()

    assert said(run) == [
        ("persona", "Any plums?"),
        ("assistant", "We have plums."),
        ("persona", "Thanks! [FIN]"),
    ]
    assert (run.state, run.stopped_because) == ("done", "persona_marker")
    assert (run.verdict, run.failures, run.turns) == ("passed", [], 1)
