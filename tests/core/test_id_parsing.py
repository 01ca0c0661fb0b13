"""Ids, and readers of their text."""

import uuid

import pytest

from core import ids

ID = uuid.UUID("01a20cf4-9107-75ac-b5ff-ef847e0eb6e9")


@pytest.mark.parametrize("text", [str(ID), ID.hex, ID.hex.upper()])
def test_uuid_is_read_in_each_form(text: str) -> None:
    assert ids.parse_uuid(text) == ID


@pytest.mark.parametrize(
    "text",
    ["", ID.hex[:-1], f"{{{ID}}}", f"urn:uuid:{ID}", f"chatcmpl-{ID.hex}", f"{ID}\n"],
    ids=["empty", "short", "braces", "urn", "prefix", "line"],
)
def test_other_texts_are_no_uuid(text: str) -> None:
    assert ids.parse_uuid(text) is None


def test_turn_id_is_read_from_the_id_of_its_completion() -> None:
    assert ids.parse_turn_id(ids.format_completion_id(ID)) == ID
    assert ids.parse_turn_id(str(ID)) == ID


def test_prefix_gives_the_range_of_its_ids() -> None:
    first, last = ids.uuid_range("01A20CF4-9107", min_digits=4) or (ID, ID)
    assert first < ID < last
    assert ids.uuid_range(str(ID)) == (ID, ID)


@pytest.mark.parametrize("text", ["", "01a", "01ag", "0" * 33])
def test_other_texts_give_no_range(text: str) -> None:
    assert ids.uuid_range(text, min_digits=4) is None
