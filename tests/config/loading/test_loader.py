import pytest

from config.errors import ConfigInvalid
from config.loading import loader
from config.sections import Config
from config.validation import suggestions
from tests.config.conftest import COOK, COOKS, KITCHEN, MENU


def codes(load, text):
    with pytest.raises(ConfigInvalid) as caught:
        load(text)
    return [problem.code for problem in caught.value.problems]


def test_load_returns_typed_sections_and_defaults(load, file):
    config = load(COOK + "menu: {tea: 3}\n")
    assert config.path == file
    assert config.get(COOKS)[0].name == "ann"
    assert config.get(MENU) == {"tea": 3}
    assert config.get(KITCHEN).stoves == 1


def test_missing_section_has_its_default(file):
    assert Config(file, {}).get(MENU) == {}


def test_sections_load_without_the_others(settings):
    # No section or check is imported, because their apps may not be loaded.
    settings.COULISSE_SECTIONS = ["nowhere.at_all"]
    settings.COULISSE_CHECKS = ["nowhere.at_all"]
    text = b"cooks: [{name: 5, boss: nobody}]\nmenu: {tea: '${vars.x}'}\nvars: {x: 3}\n"
    config = loader.parse_sections(text, (MENU, KITCHEN))
    assert (config.get(MENU), config.get(KITCHEN).stoves) == ({"tea": 3}, 1)


def test_configuration_is_immutable(load):
    config = load(COOK)
    with pytest.raises(TypeError):
        config.values["menu"] = {}


def test_digest_depends_on_the_contents(load):
    assert load(COOK).digest == load(COOK).digest != load(COOK + "\n").digest


@pytest.mark.parametrize("value", ["", "null", "~"])
def test_empty_key_counts_as_absent(load, value):
    assert load(COOK + f"kitchen: {value}\n").get(KITCHEN).stoves == 1


@pytest.mark.parametrize("text", ["menu: {tea: 1}\n", "menu: {tea: 1}\ncooks:\n"])
def test_required_key_must_be_present(refusal, text):
    assert "'cooks:'" in (message := refusal(text))
    assert "is missing; it is required" in message


def test_unknown_key_suggests_a_similar_one(refusal):
    message = refusal(COOK + "kitchn: {}\n")
    assert message == (
        "coulisse.yaml:2:1: 'kitchn' is not a known top-level key; "
        "did you mean 'kitchen'?"
    )


def test_top_level_port_suggests_server(refusal):
    assert "move it under server:" in refusal(COOK + "port: 80\n")


def test_problems_are_listed_in_file_order(load, refusal):
    text = (
        "judges: [a]\n"
        "kitchen: {stoves: 0, opn: 1}\n"
        "cooks:\n"
        "  - name: ann\n"
        "    boss: zoe\n"
        "  - name: ${UNSET_COOK}\n"
        "menu: {tea: hot}\n"
        "unheard: of\n"
    )
    lines = refusal(text).splitlines()
    places = [":".join(line.split(":")[1:3]) for line in lines]
    assert places == ["1:1", "2:11", "2:22", "6:11", "7:8", "8:1"]
    assert codes(load, text) == [
        f"coulisse.E0{n}" for n in ("12", "09", "11", "06", "09", "12")
    ]


def test_references_are_checked(refusal):
    message = refusal("cooks:\n  - name: ann\n    boss: zoe\n")
    assert message == "coulisse.yaml:3:5: cook 'ann' obeys 'zoe', who is not there"


def test_valid_sections_are_checked_beside_invalid_ones(load):
    text = "cooks: [{name: ann, boss: zoe, dishes: [pie]}]\n"
    assert codes(load, text) == ["coulisse.E901", "coulisse.E902"]
    # The menu is invalid, so references to it are not checked.
    assert codes(load, text + "menu: 3\n") == ["coulisse.E009"]
    assert codes(load, text + "kitchen: 3\n") == [
        "coulisse.E901",
        "coulisse.E902",
        "coulisse.E009",
    ]


def test_merged_problem_is_reported_at_its_source(refusal):
    text = "cooks:\n- &c\n  name: ann\n  pace: x\n- <<: *c\n  name: bob\n"
    lines = refusal(text).splitlines()
    assert [line.split(": ")[0] for line in lines] == ["coulisse.yaml:4:3"] * 2


def test_problem_list_is_truncated_with_a_count(refusal):
    cooks = "".join(f"  - {{name: c{n}, boss: b{n}, pacee: 1}}\n" for n in range(1000))
    lines = refusal(f"cooks:\n{cooks}").splitlines()
    assert lines[0].startswith("coulisse.yaml:2:26: cook 'c0': 'pacee' is not a known")
    assert lines[0].endswith("; did you mean 'pace'?")
    assert len(lines) == 101
    assert lines[-1] == "900 more problems are not shown; fix these first"


def test_suggestions_are_limited():
    with suggestions.limit_guesses():
        hints = [suggestions.did_you_mean("sop", ["soup"]) for _ in range(150)]
    assert hints == ["; did you mean 'soup'?"] * 100 + [""] * 50
    assert suggestions.did_you_mean("sop", ["soup"]) == hints[0]
