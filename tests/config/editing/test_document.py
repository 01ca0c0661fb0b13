"""Paths of keys as text."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from config.editing import document

KEYS = st.text("ab/~01", min_size=1)


@pytest.mark.parametrize(
    ("place", "text"),
    [
        ((), ""),
        (("providers", "openai"), "providers/openai"),
        (("mcp", "a/b~"), "mcp/a~1b~0"),
    ],
)
def test_key_path_converts_to_pointer_and_back(place, text):
    assert document.to_pointer(place) == text
    assert document.from_pointer(text) == place


@given(st.lists(KEYS).map(tuple))
def test_any_key_path_round_trips(place):
    assert document.from_pointer(document.to_pointer(place)) == place
