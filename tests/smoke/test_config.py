"""Validation of `smoke_tests:`."""

from pathlib import Path

import pytest

from config.errors import ConfigInvalid
from config.loading import loader
from config.sections import Config
from smoke.config import SMOKE_TESTS
from tests.smoke.scripted_models import SMOKE_CONFIG, with_test


def parse(text: str) -> Config:
    text = text.replace("{fake}", "http://127.0.0.1:9")
    return loader.parse_config(text.encode(), Path("coulisse.yaml"))


def problems(text: str) -> list[tuple[str, str]]:
    with pytest.raises(ConfigInvalid) as caught:
        parse(text)
    return [(each.code, each.message) for each in caught.value.problems]


def test_required_fields_are_few():
    test = parse(SMOKE_CONFIG).get(SMOKE_TESTS)["judged"]
    assert (test.initial_message, test.stop_marker, test.schedule) == (None, None, None)
    assert (test.repetitions, test.keep_days) == (1, 30)
    smoke_test = parse(with_test("")).get(SMOKE_TESTS)["mine"]
    assert smoke_test.max_turns == 10


def test_target_can_be_an_experiment():
    assert parse(with_test("", target="greeter"))


@pytest.mark.parametrize(
    ("fields", "code", "message"),
    [
        (
            'initial_message: "Bye [FIN]"\nstop_marker: "[FIN]"',
            "coulisse.E804",
            "smoke test 'mine' has its stop_marker in initial_message, which would end "
            "the conversation at once; remove it there",
        ),
        (
            "expect: {max_turns: 3}",
            "coulisse.E804",
            "smoke test 'mine' expects an end within 3 turns, but has no stop_marker; "
            "add one",
        ),
        (
            "expect: {tools_called: [a, b], tools_not_called: [b]}",
            "coulisse.E804",
            "smoke test 'mine' lists 'b' under both tools_called and tools_not_called; "
            "remove one",
        ),
        (
            'schedule: "0 0 30 2 *"',
            "coulisse.E804",
            "smoke test 'mine' has the schedule '0 0 30 2 *', which never occurs: no "
            "year has such a day",
        ),
        (
            "expect: {min_score: {qualty.accuracy: 7}}",
            "coulisse.E805",
            "smoke test 'mine' expects score 'qualty.accuracy', which is not a judge's "
            "score; write it as judge.criterion; did you mean 'quality.accuracy'?",
        ),
        (
            "expect: {min_score: {quality.accurac: 7}}",
            "coulisse.E805",
            "smoke test 'mine' expects score 'quality.accurac', but judge 'quality' "
            "scores only accuracy, tone; did you mean 'accuracy'?",
        ),
        (
            "expect: {min_score: {quality.accuracy: 7}}",
            "coulisse.E805",
            "smoke test 'mine' expects score 'quality.accuracy', but agent 'assistant' "
            "does not list 'quality' under judges",
        ),
        ("max_turns: 0", "coulisse.E009", None),
        ("repetitions: 0", "coulisse.E009", None),
        ('stop_marker: ""', "coulisse.E009", None),
        ('schedule: "every day"', "coulisse.E009", None),
        ("time_zone: Europe/Lisbonne", "coulisse.E009", None),
        ("expect: {min_score: {quality.accuracy: 11}}", "coulisse.E009", None),
        ("expects: {}", "coulisse.E011", None),
    ],
)
def test_invalid_fields_are_refused(fields, code, message):
    [(found, found_message)] = problems(with_test(fields))
    assert found == code
    assert message is None or found_message == message


def test_unknown_target_is_refused():
    [(code, message)] = problems(with_test("", target="asistant"))
    assert code == "coulisse.E802"
    assert message == (
        "smoke test 'mine' talks to 'asistant', which is neither an agent nor an "
        "experiment; did you mean 'assistant'?"
    )


def test_names_are_unique():
    [(_, message)] = problems(with_test("").replace("name: mine", "name: plums"))
    assert "another smoke test already has the name 'plums'" in message


def test_persona_provider_must_support_its_parameters():
    spoken_by = "provider: openai\n      model: persona-test"

    def played(by: str) -> list[tuple[str, str]]:
        return problems(SMOKE_CONFIG.replace(spoken_by, f"{by}\n      model: x"))

    code, message = played("provider: opena")[0]
    assert code == "coulisse.E801"
    assert "uses provider 'opena', which is not under providers:" in message
    code, message = played("provider: anthropic\n      seed: 1")[0]
    assert code == "coulisse.E803"
    assert "sets 'seed'" in message
