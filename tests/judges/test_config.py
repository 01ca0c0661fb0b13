"""Validation of `judges:` in the YAML, of judges and of agents."""

from pathlib import Path

import pytest
from django.test import override_settings

from agents.config import AGENTS
from config.errors import ConfigInvalid
from config.loading import loader
from judges.checks import check_small_models
from judges.config import JUDGES, JudgeConfig
from providers.pricing import price_table
from tests.docs.pages import names_in_table, table_rows

AGENT = """
providers: {openai: {api_key: x}}
agents:
  - {name: a, provider: openai, model: m, judges: %s}
"""
JUDGE = "  - {name: quality, provider: openai, model: m, rubrics: {tone: Tone.}%s}\n"


def load(text: str):
    return loader.parse_config(text.encode(), Path("coulisse.yaml"))


def refusal(text: str) -> str:
    with pytest.raises(ConfigInvalid) as caught:
        load(text)
    return str(caught.value)


def judged(more: str = "", *, names: str = "[]", judges: str | None = None) -> str:
    return AGENT % names + "judges:\n" + (judges or JUDGE % more)


def test_judge_is_read():
    config = load(judged(names="[quality]"))
    judge = config.get(JUDGES)["quality"]
    assert (judge.sampling_rate, judge.timeout_seconds, judge.max_tokens) == (
        1.0,
        60.0,
        None,
    )
    assert judge.rubrics == {"tone": "Tone."}
    assert config.get(AGENTS)["a"].judges == ("quality",)


def test_judges_are_optional():
    assert load(AGENT % "[]").get(JUDGES) == {}
    assert load(AGENT % "[]" + "judges: []\n").get(JUDGES) == {}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (judged(names="[qualty]"), "agent 'a' names judge 'qualty', which is "),
        (judged(names="[qualty]"), "did you mean 'quality'?"),
        (AGENT % "[quality]", "agent 'a' names judge 'quality'"),
        (
            judged(names="[quality, quality]"),
            "agent 'a' lists judge 'quality' tw",
        ),
        (
            judged(judges=JUDGE.replace("openai", "opena") % ""),
            "judge 'quality' ",
        ),
        (judged(judges=JUDGE * 2 % ("", "")), "another judge already has the name"),
        (judged(judges=JUDGE.replace("{tone: Tone.}", "{}") % ""), "rubrics"),
        (judged(judges=JUDGE.replace("tone: Tone.", "to.ne: T") % ""), "rubrics"),
        (judged(judges=JUDGE.replace("tone: Tone.", "'': T") % ""), "rubrics"),
        (judged(judges=JUDGE.replace("tone: Tone.", "tone: ' '") % ""), "rubrics"),
        (
            judged(judges=JUDGE.replace("tone:", "Tone: x, tone:") % ""),
            "'Tone' and 'tone' differ",
        ),
        (judged(judges=JUDGE.replace("tone:", "a-b: x, a_b: y, tone:") % ""), "differ"),
        (judged(", sampling_rate: 1.1"), "sampling_rate"),
        (judged(", sampling_rate: -0.1"), "sampling_rate"),
        (judged(", timeout_seconds: 0"), "timeout_seconds"),
        (judged(", scale: boolean"), "scale"),
        (judged(judges=JUDGE.replace("model: m, ", "") % ""), "model"),
    ],
)
def test_unknown_reference_is_refused(text, message):
    assert message in refusal(text)


def test_problem_has_its_location():
    assert refusal(judged(names="[qualty]")).startswith("coulisse.yaml:4:")


def test_criteria_names_may_be_in_any_language():
    text = judged(judges=JUDGE.replace("tone: Tone.", "clarté: Est-ce clair ?") % "")
    assert load(text).get(JUDGES)["quality"].rubrics == {"clarté": "Est-ce clair ?"}


def test_fields_are_documented_with_defaults():
    assert names_in_table("judges.md", "field") == JudgeConfig.model_fields.keys()
    listed = {
        row[0].strip("`"): row[1].strip("`") for row in table_rows("judges.md", "field")
    }
    for name, field in JudgeConfig.model_fields.items():
        if isinstance(field.default, float):
            assert listed[name] == f"{field.default:g}"


def test_judge_model_is_in_the_price_list():
    found = {
        each.name: each.used_by for each in price_table.list_models(load(judged()))
    }
    assert found["openai/m"] == ("a", "quality (judge)")


# coulisse check


def test_check_warns_about_a_small_judge_model(tmp_path):
    file = tmp_path / "coulisse.yaml"
    local = "{name: tiny, provider: local, model: smollm2-135m, rubrics: {tone: T.}}"
    text = judged(judges=JUDGE % "" + f"  - {local}\n")
    with override_settings(COULISSE_CONFIG=file):
        file.write_text(text.replace("api_key: x}", "api_key: x}, local: {}"))
        [warning] = check_small_models()
        assert warning.id == "coulisse.W654"
        assert "judge 'tiny': 'smollm2-135m' is too small to judge" in warning.msg
        # Another server with the same wire may have any model.
        url = "{base_url: 'http://127.0.0.1:9/v1'}"
        file.write_text(text.replace("api_key: x}", f"api_key: x}}, local: {url}"))
        assert check_small_models() == []
