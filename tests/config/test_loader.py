import pytest

from config.errors import ConfigInvalid
from config.loading import loader
from config.sections import Config, Section
from config.validation import suggestions

from .conftest import COOK, COOKS, KITCHEN, MENU

JUDGES: Section[list[str]] = Section(key="judges", shape=list[str], default=list)


def codes(load, text):
    with pytest.raises(ConfigInvalid) as caught:
        load(text)
    return [problem.code for problem in caught.value.problems]


def test_it_returns_typed_sections_and_defaults(load, file):
    config = load(COOK + "menu: {tea: 3}\n")
    assert config.path == file
    assert config.get(COOKS)[0].name == "ann"
    assert config.get(MENU) == {"tea": 3}
    assert config.get(KITCHEN).stoves == 1


def test_a_configuration_without_a_section_has_its_default(file):
    assert Config(file, {}).get(MENU) == {}


def test_a_part_is_read_without_what_the_others_need(settings):
    # Neither sections nor checks are loaded: their apps may not be.
    settings.COULISSE_SECTIONS = ["nowhere.at_all"]
    settings.COULISSE_CHECKS = ["nowhere.at_all"]
    text = b"cooks: [{name: 5, boss: nobody}]\nmenu: {tea: '${vars.x}'}\nvars: {x: 3}\n"
    assert loader.parse_section(text, MENU) == {"tea": 3}
    config = loader.parse_sections(text, (MENU, KITCHEN))
    assert (config.get(MENU), config.get(KITCHEN).stoves) == ({"tea": 3}, 1)


def test_a_snapshot_does_not_change(load):
    config = load(COOK)
    with pytest.raises(TypeError):
        config.values["menu"] = {}


def test_the_digest_tells_contents_apart(load):
    assert load(COOK).digest == load(COOK).digest != load(COOK + "\n").digest


@pytest.mark.parametrize("value", ["", "null", "~"])
def test_a_key_with_nothing_under_it_is_absent(load, value):
    assert load(COOK + f"kitchen: {value}\n").get(KITCHEN).stoves == 1


@pytest.mark.parametrize("text", ["menu: {tea: 1}\n", "menu: {tea: 1}\ncooks:\n"])
def test_a_required_key_must_be_there(refusal, text):
    assert "'cooks:'" in (message := refusal(text))
    assert "is missing, and must be there" in message


def test_an_unknown_key_names_a_near_one(refusal):
    message = refusal(COOK + "kitchn: {}\n")
    assert message == (
        "coulisse.yaml:2:1: 'kitchn' is not a known top-level key; "
        "did you mean 'kitchen'?"
    )


def test_a_port_belongs_under_server(refusal):
    assert "nest it under server:" in refusal(COOK + "port: 80\n")


@pytest.mark.parametrize(
    "value", ["[{name: q}]", "{a: 1}", "x", "false", "0", "''", "${UNSET}"]
)
def test_a_planned_key_is_refused(refusal, value):
    message = refusal(COOK + f"judges: {value}\n")
    assert message == (
        "coulisse.yaml:2:1: 'judges' (models that score replies) is not available "
        "in this version of Coulisse; remove the key"
    )


@pytest.mark.parametrize("value", ["", "null", "[]", "{}"])
def test_a_planned_key_may_ask_for_nothing(load, value):
    assert load(COOK + f"judges: {value}\nmcp: {value}\n")


def test_a_section_makes_a_planned_key_available(load, settings):
    settings.COULISSE_SECTIONS = [*settings.COULISSE_SECTIONS, f"{__name__}.JUDGES"]
    assert load(COOK + "judges: [a]\n").get(JUDGES) == ["a"]


def test_it_lists_every_problem_in_the_order_of_the_file(load, refusal):
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
        f"coulisse.E0{n}" for n in ("13", "09", "11", "06", "09", "12")
    ]


def test_it_checks_references(refusal):
    message = refusal("cooks:\n  - name: ann\n    boss: zoe\n")
    assert message == "coulisse.yaml:3:5: cook 'ann' obeys 'zoe', who is not there"


def test_it_checks_what_can_be_checked_beside_a_broken_section(load):
    text = "cooks: [{name: ann, boss: zoe, dishes: [pie]}]\n"
    assert codes(load, text) == ["coulisse.E901", "coulisse.E902"]
    # The menu is unknown now, so nothing is said about what is on it.
    assert codes(load, text + "menu: 3\n") == ["coulisse.E009"]
    assert codes(load, text + "kitchen: 3\n") == [
        "coulisse.E901",
        "coulisse.E902",
        "coulisse.E009",
    ]


def test_a_problem_in_what_is_merged_stands_where_it_is_written(refusal):
    text = "cooks:\n- &c\n  name: ann\n  pace: x\n- <<: *c\n  name: bob\n"
    lines = refusal(text).splitlines()
    assert [line.split(": ")[0] for line in lines] == ["coulisse.yaml:4:3"] * 2


def test_of_many_problems_the_first_are_told_and_how_many_more_there_are(refusal):
    cooks = "".join(f"  - {{name: c{n}, boss: b{n}, pacee: 1}}\n" for n in range(1000))
    told = refusal(f"cooks:\n{cooks}").splitlines()
    assert told[0].startswith("coulisse.yaml:2:26: cook 'c0': 'pacee' is not a known")
    assert told[0].endswith("; did you mean 'pace'?")
    assert len(told) == 101
    assert told[-1] == "900 more problems are not shown: mend these first"


def test_of_many_mistakes_the_first_are_guessed_at():
    with suggestions.limit_guesses():
        hints = [suggestions.did_you_mean("sop", ["soup"]) for _ in range(150)]
    assert hints == ["; did you mean 'soup'?"] * 100 + [""] * 50
    assert suggestions.did_you_mean("sop", ["soup"]) == hints[0]
