"""Validation of `experiments:`, and the remedies in its errors."""

import pytest
from django.test import override_settings

from config.errors import ConfigInvalid
from config.loading import loader
from config.sections import Config
from experiments.checks import check_bandits
from experiments.config import EXPERIMENTS

BASE = """
providers: {openai: {api_key: sk-secret}}
agents:
  - {name: one, provider: openai, model: m, judges: [quality]}
  - {name: two, provider: openai, model: m, judges: [quality, safety]}
  - {name: plain, provider: openai, model: m}
judges:
  - {name: quality, provider: openai, model: j, rubrics: {tone: T., facts: F.}}
  - {name: safety, provider: openai, model: j, rubrics: {harm: H.}}
"""


def load(tmp_path, text: str) -> Config:
    return loader.parse_config((BASE + text).encode(), tmp_path / "coulisse.yaml")


def experiment(fields: str, variants: str = "{agent: one}, {agent: two}") -> str:
    return f"experiments: [{{name: e, {fields}, variants: [{variants}]}}]"


def test_defaults_match_the_documentation(tmp_path):
    text = experiment("strategy: bandit, metric: quality.tone")
    found = load(tmp_path, text).get(EXPERIMENTS)["e"]
    assert (found.sticky_by_user, found.epsilon, found.min_samples) == (True, 0.1, 30)
    assert (found.bandit_window_seconds, found.sampling_rate) == (604_800, 1.0)
    assert [variant.weight for variant in found.variants] == [1.0, 1.0]


@pytest.mark.parametrize(
    "text",
    [
        "experiments: []",
        experiment("strategy: split"),
        experiment("strategy: split", "{agent: one, weight: 0.2}"),
        experiment("strategy: shadow, primary: two, sampling_rate: 0"),
        experiment("strategy: bandit, metric: quality.facts, epsilon: 1"),
        experiment("strategy: split, stop_when: {metric: quality.tone}"),
        experiment("strategy: bandit, metric: quality.tone, stop_when: {}"),
        # Judges may have dots in their names.
        BASE.replace("name: quality", "name: q.v2").replace("[quality", "[q.v2")
        + experiment("strategy: bandit, metric: q.v2.tone"),
    ],
)
def test_valid_experiment_is_accepted(tmp_path, text):
    whole = text if text.startswith(BASE[:20]) else BASE + text
    assert loader.parse_config(whole.encode(), tmp_path / "coulisse.yaml")


@pytest.mark.parametrize(
    ("text", "code", "message"),
    [
        (experiment("strategy: dice"), "E009", "'split', 'shadow'"),
        (experiment("strategy: split", ""), "E009", "variants"),
        (experiment("strategy: split", "{agent: one, weight: 0}"), "E009", "weight"),
        (experiment("strategy: split", "{agent: one, weight: -1}"), "E009", "weight"),
        (
            experiment("strategy: split", "{agent: one}, {agent: one}"),
            "E701",
            "lists the variant 'one' twice",
        ),
        (
            experiment("strategy: split, primary: one"),
            "E702",
            "'primary', which applies only to strategy 'shadow'",
        ),
        (
            experiment("strategy: shadow, primary: one, epsilon: 0.1"),
            "E702",
            "'epsilon', which applies only to strategy 'bandit'",
        ),
        (experiment("strategy: split, metric: quality.tone"), "E702", "'metric'"),
        (experiment("strategy: split, min_samples: 3"), "E702", "'min_samples'"),
        (experiment("strategy: shadow"), "E703", "one of its variants (one, two)"),
        (
            experiment("strategy: shadow, primary: onee"),
            "E703",
            "did you mean 'one'?",
        ),
        (
            experiment("strategy: shadow, primary: one, sampling_rate: 1.1"),
            "E009",
            "sampling_rate",
        ),
        (experiment("strategy: bandit"), "E704", "set metric to"),
        (
            experiment("strategy: bandit, metric: tone"),
            "E705",
            "not in the form judge.criterion",
        ),
        (
            experiment("strategy: bandit, metric: quality.tone, epsilon: 1.5"),
            "E009",
            "epsilon",
        ),
        (
            "experiments: [{name: one, strategy: split, variants: [{agent: two}]}]",
            "E711",
            "has the same name as an agent",
        ),
        (
            experiment("strategy: split", "{agent: tow}"),
            "E712",
            "not under agents:; did you mean 'two'?",
        ),
        (
            experiment("strategy: split", "{agent: e}"),
            "E712",
            "is an experiment itself",
        ),
        (
            experiment("strategy: bandit, metric: qualty.tone"),
            "E713",
            "judge 'qualty' is not under judges:; did you mean 'quality'?",
        ),
        (
            experiment("strategy: bandit, metric: quality.taste"),
            "E713",
            "no criterion 'taste', only tone, facts",
        ),
        (
            experiment("strategy: bandit, metric: safety.harm"),
            "E714",
            "its variant 'one' is never scored; add 'safety'",
        ),
        (
            experiment("strategy: split, stop_when: {metric: safety.harm}"),
            "E714",
            "variant 'one'",
        ),
        (
            experiment("strategy: split, stop_when: {}"),
            "E715",
            "set stop_when.metric to one of quality.tone, quality.facts",
        ),
        (
            experiment("strategy: split, stop_when: {}", "{agent: plain}"),
            "E715",
            "to the judges: of all its variants",
        ),
        (
            experiment("strategy: split, stop_when: {confidence: 1}"),
            "E009",
            "confidence",
        ),
        (
            "experiments: [{name: e, strategy: split, variants: [{agent: one}]}, "
            "{name: e, strategy: split, variants: [{agent: two}]}]",
            "E009",
            "already has the name 'e'",
        ),
    ],
)
def test_invalid_experiment_is_refused(tmp_path, text, code, message):
    with pytest.raises(ConfigInvalid) as caught:
        load(tmp_path, text)
    assert message in str(caught.value)
    assert f"coulisse.{code}" in {problem.code for problem in caught.value.problems}


@pytest.mark.parametrize(
    ("agent", "limits", "message"),
    [
        ("subagents: [e]", "[]", None),
        ("subagents: [ee]", "[]", "calls agent 'ee', which does not exist; did you"),
        ("max_turns: 3", "[{per: agent, name: e, requests_per_day: 9}]", None),
        ("max_turns: 3", "[{per: agent, name: ee, requests_per_day: 9}]", "'ee'"),
    ],
)
def test_agents_and_limits_may_name_an_experiment(tmp_path, agent, limits, message):
    text = BASE.replace("name: plain,", f"name: plain, {agent},")
    text += experiment("strategy: split") + f"\nlimits: {limits}"
    if message is None:
        assert loader.parse_config(text.encode(), tmp_path / "coulisse.yaml")
        return
    with pytest.raises(ConfigInvalid) as caught:
        loader.parse_config(text.encode(), tmp_path / "coulisse.yaml")
    assert message in str(caught.value)


# coulisse check


def test_check_warns_about_a_bandit_with_a_disabled_judge(tmp_path):
    file = tmp_path / "coulisse.yaml"
    base = BASE + experiment("strategy: bandit, metric: quality.tone")
    parked = base.replace("name: quality,", "name: quality, sampling_rate: 0,")
    with override_settings(COULISSE_CONFIG=file):
        for text in (base, parked.replace("bandit, metric: quality.tone", "split")):
            file.write_text(text)
            assert check_bandits() == []
        file.write_text(parked)
        [warning] = check_bandits()
        assert warning.id == "coulisse.W716"
        assert "experiment 'e' uses metric 'quality.tone', but judge" in warning.msg
        assert check_bandits(databases=["default"]) == []
