"""A turn's id is read in every form people have it in."""

import uuid

import pytest

from telemetry.presentation import turn_ids

ID = uuid.UUID("5f0cb7a4-27b6-4e0a-9a55-0ab6c9d0b3e1")


@pytest.mark.parametrize(
    "text", [str(ID), ID.hex, f"chatcmpl-{ID.hex}", f"chatcmpl-{ID}", ID.hex.upper()]
)
def test_turn_id_is_parsed(text):
    assert turn_ids.parse_turn_id(text) == ID


@pytest.mark.parametrize(
    "text",
    [
        *("", "x", f"{ID.hex}0", ID.hex[1:], f"mem_{ID.hex}", f" {ID.hex}"),
        *(f"{ID.hex}\n", f"{{{ID}}}", "\u0661" * 32, str(ID).replace("-", "_")),
    ],
)
def test_invalid_turn_id_is_none(text):
    assert turn_ids.parse_turn_id(text) is None
