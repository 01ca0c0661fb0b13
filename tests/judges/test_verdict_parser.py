"""Parsing of judges' answers in the forms that models produce."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.text import redaction
from judges.scoring import verdict_parser
from judges.scoring.verdict_parser import JudgeResult, ResultUnreadable
from tests.judges.sample_judges import answer

TWO = {"accuracy": "Is it true?", "tone": "Is it kind?"}
BOTH = answer(accuracy=9, tone=7)


def scores(text: str, criteria=TWO) -> dict[str, int]:
    return {
        name: v.score
        for name, v in verdict_parser.parse_results(text, criteria).items()
    }


@pytest.mark.parametrize(
    "text",
    [
        BOTH,
        f"```json\n{BOTH}\n```",
        f"Here are my scores:\n\n{BOTH}\n\nI hope that helps.",
        json.dumps({"scores": json.loads(BOTH)}),
        BOTH.replace("accuracy", "Accuracy").replace("tone", " TONE "),
        '{"tone": 7, "accuracy": 9, "humour": 2}',
        # Twice, with equal scores.
        f"{BOTH}\n```json\n{BOTH}\n```",
    ],
)
def test_surrounding_text_is_ignored(text):
    assert scores(text) == {"accuracy": 9, "tone": 7}


@pytest.mark.parametrize(
    ("text", "score"),
    [
        (0, 0),
        (10, 10),
        (7, 7),
        (7.0, 7),
        (7.4, 7),
        (7.5, 8),
        (8.5, 9),
        (-0.0, 0),
        (-3, 0),
        (11, 10),
        (85, 10),
        (1e300, 10),
        ("8", 8),
        (" 8 ", 8),
        ("8.4", 8),
        ("8,6", 9),
        ("-1", 0),
        ("+8", 8),
        ("8/10", 8),
        ("8 / 10", 8),
        ("8 out of 10", 8),
        ("4/5", 8),
        ("80/100", 8),
    ],
)
def test_scores_are_whole_numbers_from_0_to_10(text, score):
    assert scores(answer(accuracy=text, tone=5))["accuracy"] == score


@pytest.mark.parametrize(
    "text",
    [
        None,
        True,
        False,
        "",
        "high",
        "ten",
        "8/0",
        [8],
        {"value": 8},
        "8 or 9",
        "NaN",
        f"{'9' * 400}/{'9' * 400}",
    ],
)
def test_non_numeric_score_is_refused(text):
    with pytest.raises(
        ResultUnreadable, match="the score of 'accuracy' is not a number"
    ):
        verdict_parser.parse_results(answer(accuracy=text, tone=5), TWO)


def test_missing_criterion_is_named():
    with pytest.raises(ResultUnreadable, match=r"it has no score for 'tone'$"):
        verdict_parser.parse_results(answer(accuracy=5), TWO)
    with pytest.raises(ResultUnreadable, match="'accuracy', 'tone'"):
        verdict_parser.parse_results("{}", TWO)


@pytest.mark.parametrize(
    "text",
    ["", "I would say eight.", "[8, 9]", "8", "null", '{"accuracy": {"score": 9'],
)
def test_prose_is_unreadable(text):
    with pytest.raises(ResultUnreadable):
        verdict_parser.parse_results(text, TWO)


def test_conflicting_quoted_scores_are_refused():
    quoted = answer(accuracy=10, tone=10)
    text = f"The reply said:\n```json\n{quoted}\n```\nMine:\n```json\n{BOTH}\n```"
    with pytest.raises(ResultUnreadable, match="two different"):
        verdict_parser.parse_results(text, TWO)


def test_reasoning_is_one_storable_line():
    value = {"score": 5, "reasoning": "It is\n  fine\0\ud800. " + "x" * 5_000}
    text = json.dumps({"accuracy": value, "tone": 5})
    verdicts = verdict_parser.parse_results(text.replace("\\ud800", "?"), TWO)
    assert verdicts["accuracy"].reasoning.startswith("It is fine\ufffd?. xxx")
    assert len(verdicts["accuracy"].reasoning) == verdict_parser.MAX_REASONING
    assert verdicts["tone"] == JudgeResult(5, "")


def test_reasoning_is_redacted_before_truncation():
    redaction.register_secrets(["q7Vd2mXw9Lr4TzK8bNf3HcYs"])
    before = "x" * (verdict_parser.MAX_REASONING - 10)
    value = {"score": 5, "reasoning": f"{before}q7Vd2mXw9Lr4TzK8bNf3HcYs"}
    verdicts = verdict_parser.parse_results(
        json.dumps({"accuracy": value, "tone": 5}), TWO
    )
    assert verdicts["accuracy"].reasoning == f"{before}[redacted]"


def test_non_text_reasoning_is_dropped():
    text = json.dumps({"accuracy": {"score": 5, "reasoning": ["a", "b"]}, "tone": 5})
    assert verdict_parser.parse_results(text, TWO)["accuracy"].reasoning == ""


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["accuracy", "tone", "score", "scores", "x"]), inner
        )
    ),
    max_leaves=10,
)


@settings(max_examples=50)
@given(JSON)
def test_any_answer_is_parsed_or_unreadable(value):
    try:
        found = verdict_parser.parse_results(json.dumps(value), TWO)
    except ResultUnreadable:
        return
    assert found.keys() == TWO.keys()
    assert all(0 <= verdict.score <= 10 for verdict in found.values())
