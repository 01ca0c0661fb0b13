"""JSON is found in any wrapping of a model's reply."""

import pytest

from core.text import lenient_json


@pytest.mark.parametrize(
    "text",
    [
        '{"a": 1}',
        ' \n{"a": 1}\n',
        '```json\n{"a": 1}\n```',
        '```\n{"a": 1}```',
        'Sure! {"a": 1} Anything else?',
    ],
)
def test_json_is_found_bare_fenced_and_in_prose(text):
    assert lenient_json.parse_first(text) == ('{"a": 1}', {"a": 1})


@pytest.mark.parametrize("text", ["", "no", '{"a": ', "[1, 2", "{not json}", "\ud800"])
def test_invalid_json_is_refused_with_the_reason(text):
    with pytest.raises(ValueError, match="not valid JSON"):
        lenient_json.parse_first(text)


def test_every_candidate_is_yielded():
    text = 'Two: [{"a": 1}]'
    assert [value for _, value in lenient_json.parse_candidates(text)] == [
        {"a": 1},
        [{"a": 1}],
    ]


def test_endlessly_nested_text_is_not_json():
    assert list(lenient_json.parse_candidates("[" * 100_000)) == []
