"""The YAML's `safety:` section: what is refused, with which words."""

import pytest
from pydantic import ValidationError

from config.errors import ConfigInvalid
from config.validation import validator
from config.validation.validator import ShapeError
from safety.config import SAFETY, SafetyCheck
from safety.detection.config import compile_pattern
from tests.safety.safe_server import check, control_check, safety_yaml

MODEL = {"provider": "openai", "model": "m", "instructions": "x"}
TWO = {"pii": ["email"], "moderation": {}}


def refusal(*checks: dict) -> str:
    with pytest.raises(ValidationError) as caught:
        SAFETY.adapter.validate_python({"checks": list(checks)})
    return str(caught.value)


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"by": {}}, "must have exactly one of regex, pii, injection, json_schema"),
        ({"by": TWO}, "must have exactly one of"),
        ({"by": {"regex": {"flagged": ["(a"]}}}, "is not a pattern of RE2: missing )"),
        ({"by": {"pii": None}}, "must have exactly one of"),
        ({"by": {"regex": {"flagged": ["(?=a)b"]}}}, "RE2 has no look-around"),
        ({"by": {"regex": {"flagged": [r"(a)\1"]}}}, "no back-references"),
        ({"by": {"regex": {"flagged": ["a*"]}}}, "matches the empty text"),
        ({"by": {"regex": {"flagged": []}}}, "at least 1 item"),
        ({"by": {"regex": {"high": ["a"]}}}, "level 'high', which is not under levels"),
        ({"by": {"pii": ["name"]}}, "'email', 'phone', 'iban', 'card' or 'ip'"),
        ({"by": {"model": MODEL}}, "levels need a text each"),
        ({"by": {"json_schema": {"type": "objec"}}}, "is not a JSON Schema"),
        ({"by": {"json_schema": {"type": "object"}}}, "for replies: when: after"),
        ({"levels": {"none": ""}}, "'none' is a level that every check has"),
        ({"actions": {"high": {}}}, "actions has the level 'high'"),
        ({"actions": {"flagged": {"mask": True, "refuse": "No."}}}, "contradict"),
        (
            {"actions": {"flagged": {"instruct": "Go.", "refuse": "No."}}},
            "the agent does not reply; remove instruct, or refuse",
        ),
        (
            {"when": "after", "actions": {"flagged": {"instruct": "Go."}}},
            "come too late unless the check runs before the reply",
        ),
        (
            {"by": "injection", "actions": {"flagged": {"mask": True}}},
            "mask, which only regex and pii can do",
        ),
        ({"when": "after", "messages": "all"}, "which is for the client's messages"),
        (
            {"when": "beside", "actions": {"flagged": {"mask": True}}},
            "mask, which comes too late beside the reply",
        ),
    ],
)
def test_invalid_check_is_refused(fields, problem):
    assert problem in refusal(check(**fields))


@pytest.mark.parametrize(
    ("pattern", "problem"),
    [
        (r"(?:\pL{0,300}){1}" * 3, "shorten its repetitions, or write it as several"),
        ("a{5000}", "invalid repetition size: {5000}"),
        (r"\q", r"invalid escape sequence: \q"),
    ],
    ids=["size", "repetition", "escape"],
)
def test_hint_about_a_pattern_fits_its_error(pattern, problem):
    refused = refusal(check(by={"regex": {"flagged": [pattern]}}))
    assert problem in refused
    assert "look-around" not in refused


def test_invalid_items_are_not_called_missing():
    by = {"pii": ["nope"]}
    with pytest.raises(ShapeError) as caught:
        validator.validate_section(SAFETY, {"checks": [check(by=by)]}, {})
    (problem,) = caught.value.problems
    assert "'checks[0].by.pii[0]' must be one of 'email'" in problem.message


def test_empty_schema_accepts_any_json():
    by = SafetyCheck.model_validate(check(by={"json_schema": {}}, when="after")).by
    assert by.kind == "json_schema"
    assert by.validator.is_valid([1])


def test_names_are_unique():
    assert "already has the name 'words'" in refusal(check(), check())


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        (control_check(agents=["asistant"]), "did you mean 'assistant'?"),
        (check(actions={"flagged": {"hand_over": "cloud"}}), "hands over to agent"),
        (
            check(by={"moderation": {"provider": "opena"}}),
            "uses provider 'opena', which is not under providers:; did you mean",
        ),
    ],
    ids=["agent", "hand_over", "provider"],
)
@pytest.mark.database
def test_unknown_names_are_refused(configure, fields, problem):
    with pytest.raises(ConfigInvalid) as caught:
        configure(safety_yaml(fields))
    assert problem in str(caught.value)


def test_patterns_take_linear_time():
    pattern = compile_pattern("(a+)+$")
    assert not pattern.search("a" * 100_000 + "b")
