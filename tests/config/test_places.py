"""Places in the file as one text."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from config import places

KEYS = st.text("ab/~01", min_size=1)


@pytest.mark.parametrize(
    ("place", "text"),
    [
        ((), ""),
        (("providers", "openai"), "providers/openai"),
        (("mcp", "a/b~"), "mcp/a~1b~0"),
    ],
)
def test_a_place_is_one_text(place, text):
    assert places.pointer(place) == text
    assert places.pointed(text) == place


@given(st.lists(KEYS).map(tuple))
def test_whatever_its_keys_it_is_read_back(place):
    assert places.pointed(places.pointer(place)) == place
