"""Personal data that the patterns find, and what only looks like it."""

import pytest

from safety.detection.personal_data import KINDS, find_personal_data


def found(text: str) -> list[tuple[str, str]]:
    matches = sorted(find_personal_data(text, [*KINDS]), key=lambda each: each.start)
    return [(match.label, text[match.start : match.end]) for match in matches]


@pytest.mark.parametrize(
    ("kind", "data"),
    [
        ("email", "jane.doe+news@mail.example.co.uk"),
        ("email", "jürgen@münchen.de"),
        ("phone", "+49 30 1234567"),
        ("phone", "(030) 123-4567"),
        ("phone", "0171/1234567"),
        ("phone", "212-555-0187"),
        ("iban", "DE89 3704 0044 0532 0130 00"),
        ("iban", "gb82west12345698765432"),
        ("card", "4111 1111 1111 1111"),
        ("card", "378282246310005"),
        ("ip", "192.168.0.1"),
        ("ip", "2001:db8::ff00:42:8329"),
        ("ip", "::ffff:192.168.0.1"),
        ("card", "4111\u00a01111\u00a01111\u00a01111"),
        ("card", "4111  1111  1111  1111"),
        ("iban", "DE89\u00a03704\u00a00044\u00a00532\u00a00130\u00a000"),
    ],
)
def test_personal_data_is_found(kind, data):
    assert found(f"It is {data}, I think.") == [(kind, data)]
    assert found(data) == [(kind, data)]


@pytest.mark.parametrize(
    "text",
    [
        "2024-01-15 and 15.01.2024",
        "order 12345678",
        "0.123456789",
        "4111 1111 1111 1112",  # Luhn
        "DE89370400440532013001",  # mod 97
        "XX89370400440532013000",
        "version 1.2.3.4.5 or 300.1.1.1",
        "12:30:45 std::string dead::beef",
        "name@example",
        "0000000000000000 and 4444444444444444",
    ],
)
def test_lookalikes_are_not_found(text):
    assert found(text) == []


def test_data_after_other_digits_is_found():
    assert found("In 2024 4111 1111 1111 1111.") == [("card", "4111 1111 1111 1111")]


CARD = "4111 1111 1111 1111"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (f"{CARD} 12/27", [("card", CARD)]),
        (f"{CARD} 123", [("card", CARD)]),
        (f"{CARD.replace(' ', '-')} 2027", [("card", CARD.replace(" ", "-"))]),
        (f"{CARD} {CARD}", [("card", CARD)] * 2),
    ],
)
def test_data_before_other_digits_is_found(text, expected):
    assert found(text) == expected
