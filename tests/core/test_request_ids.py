"""Request ids: the client's if valid, else a new one."""

import contextvars
import re

import pytest

from core.runtime import request_ids


def assigned_id(given: bytes | None) -> str:
    def begin() -> tuple[str, str]:
        return request_ids.assign_request_id(given), request_ids.current.get()

    name, current = contextvars.Context().run(begin)
    assert name == current
    return name


@pytest.mark.parametrize(
    "name", ["a", "checkout-7", "x" * 128, "1-5759e988:bd8=62fe/ab+c_d.e@f"]
)
def test_valid_client_request_id_is_used(name):
    assert assigned_id(name.encode()) == name


@pytest.mark.parametrize(
    "given",
    [
        None,
        b"",
        b"x" * 129,
        b"two words",
        b"a\nb",
        b"a\r\nSet-Cookie: b",
        b"a\n",
        b"<script>",
        b'"',
        b"a,b",
        b"\xc3\xa4",
        b"\xff",
        b"a\0",
        b"{}",
        b"%0a",
    ],
)
def test_invalid_request_id_is_replaced(given):
    name = assigned_id(given)
    assert re.fullmatch(r"req_[0-9a-f]{32}", name)
    assert assigned_id(given) != name
