"""Texts that arrive in pieces: what passes, what is masked, what is held back."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from safety import text_window
from safety.config import SafetyCheck
from safety.text_window import TextWindow

MASK = {"flagged": {"mask": True}}
WORD = SafetyCheck.model_validate(
    {
        "name": "word",
        "when": "after",
        "by": {"regex": {"flagged": ["x+y"]}},
        "actions": MASK,
    }
)
MAIL = SafetyCheck.model_validate(
    {"name": "mail", "when": "after", "by": {"pii": ["email"]}, "actions": MASK}
)
WINDOW = 40


def run(check: SafetyCheck, pieces: list[str], size: int | None = WINDOW) -> str:
    window = TextWindow([check], size)
    passed = "".join(window.add(piece) for piece in pieces)
    return passed + window.flush()


@given(
    st.text("xyz ", max_size=120),
    st.lists(st.integers(1, 30), min_size=1, max_size=20),
)
def test_pieces_are_masked_like_the_whole(text, sizes):
    """Patterns of at most half a window do not depend on where pieces end."""
    text = text.replace("x" * 15, "x")
    pieces, position = [], 0
    while position < len(text):
        size = sizes[len(pieces) % len(sizes)]
        pieces.append(text[position : position + size])
        position += size
    assert run(WORD, pieces) == run(WORD, [text], None)


@pytest.mark.parametrize("start", range(60))
def test_address_is_masked_wherever_it_is(start):
    text = f"{' .' * 30}a.b@example.com{' .' * 30}"
    text = text[start:]
    assert run(MAIL, [*text]) == text.replace("a.b@example.com", "[email]")


def test_no_more_than_a_window_is_held_back():
    window = TextWindow([WORD], WINDOW)
    given = passed = 0
    for piece in ["z"] * 100 + ["x"] * 100 + ["z" * 500, "x" * 500]:
        given += len(piece)
        passed += len(window.add(piece))
        assert given - passed < WINDOW


def test_found_text_has_its_surroundings():
    check = SafetyCheck.model_validate(
        {"name": "w", "when": "after", "by": {"regex": {"flagged": ["bad"]}}}
    )
    window = TextWindow([check], WINDOW)
    for piece in [*f"{'-' * 90} bad {'-' * 90}"]:
        window.add(piece)
    window.flush()
    found = window.take_found()
    assert {each.level for each in found} == {"flagged"}
    assert all("bad" in each.excerpt for each in found)


def pattern(text: str, **action: str | bool) -> SafetyCheck:
    by = {"regex": {"flagged": [text]}}
    actions = {"flagged": action}
    fields = {"name": "p", "when": "after", "by": by, "actions": actions}
    return SafetyCheck.model_validate(fields)


def found_in(check: SafetyCheck, text: str) -> bool:
    window = TextWindow([check], WINDOW)
    for piece in text:
        window.add(piece)
    window.flush()
    return bool(window.take_found())


@pytest.mark.parametrize("beginning", ["^", r"\A"])
def test_beginning_is_that_of_the_text(beginning):
    check = pattern(f"{beginning}a+b", refuse="No.")
    assert found_in(check, f"ab{'-' * 200}")
    for position in range(1, 60):
        text = f"{'-' * position}{'a' * 30}b{'-' * 200}"
        assert not found_in(check, text), position
    assert found_in(check, "ab" * 100)


@pytest.mark.parametrize("end", ["$", r"\z", r"\b"])
def test_end_is_that_of_the_text(end):
    check = pattern(f"kill{end}", refuse="No.")
    for position in range(60):
        assert not found_in(check, f"{' ' * position}killer {'-' * 200}"), position
        assert found_in(check, f"{' ' * position}kill"), position


def test_repeated_findings_cost_little(monkeypatch):
    """Each level is noted once, so that the cost is linear."""
    made = []
    excerpt = text_window._excerpt
    monkeypatch.setattr(
        text_window, "_excerpt", lambda *given: made.append(1) or excerpt(*given)
    )
    window = TextWindow([pattern("forbidden")], None)
    window.check("forbidden " * 5_000)
    assert (len(made), len(window.take_found())) == (1, 1)
