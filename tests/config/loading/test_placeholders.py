from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st
from ruamel.yaml import YAML

from config.loading.placeholders import Expander, hide, reveal
from tests import growth
from tests.config.conftest import COOK, COOKS, MENU

NASTY = [
    "a: b",
    "# no",
    "x\ny: z",
    "]",
    "}",
    "'",
    '"',
    "- a",
    "*a",
    "&a",
    "${X}",
    "|\n",
]
words = st.text(st.characters(codec="utf-8", exclude_characters="\r\n}"))
secrets = st.one_of(st.sampled_from(NASTY), st.text(st.characters(codec="utf-8")))
texts = st.lists(
    st.one_of(
        st.sampled_from(
            ["${A}", "$${A}", "$${", "${", "${A:-x y}", "$", "}", "\n", "$$"]
        ),
        st.text(max_size=5),
    )
).map("".join)


def speciality(load, text):
    return (
        load(f"cooks:\n  - name: ann\n    speciality: {text}\n")
        .get(COOKS)[0]
        .speciality
    )


@given(texts)
def test_hide_keeps_lengths_and_reveal_restores(text):
    hidden = hide(text)
    assert len(hidden) == len(text)
    assert [c for c in hidden if c == "\n"] == [c for c in text if c == "\n"]
    if not any(c >= "\U00100000" for c in text):
        assert reveal(hidden) == text


@given(words)
def test_hide_removes_placeholder_syntax(word):
    hidden = hide("${X:-" + word + "}")
    if not any(c >= "\U00100000" for c in word):
        assert all(ord(c) >= 0x10000 for c in hidden)


@given(secrets)
def test_value_never_changes_the_structure(secret):
    text = "a: {b: ${X}, c: [${X}, '${X}', \"${X}\"]} # ${X}\nd: |\n  ${X}\n"
    tree = YAML(typ="safe", pure=True).load(hide(text))
    expand = Expander({"X": secret}, {}).expand
    assert list(tree) == ["a", "d"]
    assert expand(tree["a"]["b"]) == secret
    assert [expand(item) for item in tree["a"]["c"]] == [secret] * 3
    assert expand(tree["d"]) == secret + "\n"


@given(secrets, secrets)
def test_expanded_values_are_not_expanded_again(first, second):
    expander = Expander({"A": first + "${B}${vars.b}", "B": second}, {"b": "no"})
    assert expander.expand(hide("${A}")) == first + "${B}${vars.b}"


def test_private_use_icons_are_kept(load):
    assert speciality(load, "\U00100123 \ue0b0") == "\U00100123 \ue0b0"


def test_placeholders_expand_in_block_flow_and_quotes(load, monkeypatch):
    monkeypatch.setenv("DISH", "pie: # 'tart'")
    assert speciality(load, "${DISH}") == "pie: # 'tart'"
    assert speciality(load, "'a ${DISH} b'") == "a pie: # 'tart' b"
    assert load("cooks: [{name: ${DISH}}]").get(COOKS)[0].name == "pie: # 'tart'"


def test_expanded_numbers_are_parsed(load, monkeypatch):
    monkeypatch.setenv("PRICE", "12")
    assert load(COOK + "menu: {tea: ${PRICE}}\n").get(MENU) == {"tea": 12}


def test_placeholders_expand_in_keys(load, monkeypatch):
    monkeypatch.setenv("DISH", "tea: no")
    assert load(COOK + "menu: {${DISH}: 1}\n").get(MENU) == {"tea: no": 1}


@pytest.mark.parametrize(
    ("value", "expected"), [(None, "soup # 2"), ("", "soup # 2"), ("pie", "pie")]
)
def test_default_applies_to_unset_and_empty_variables(
    load, monkeypatch, value, expected
):
    monkeypatch.delenv("DISH", raising=False)
    if value is not None:
        monkeypatch.setenv("DISH", value)
    assert speciality(load, "${DISH:-soup # 2}") == expected


def test_default_may_be_empty(load):
    assert speciality(load, "a${UNSET_DISH:-}b") == "ab"


def test_empty_variable_counts_as_set(load, monkeypatch):
    monkeypatch.setenv("DISH", "")
    assert speciality(load, "x${DISH}") == "x"


def test_double_dollar_is_literal(load):
    assert speciality(load, "a $${X} $${ b") == "a ${X} ${ b"
    assert load("cooks: [{name: $${X}}]").get(COOKS)[0].name == "${X}"


def test_placeholders_in_comments_are_ignored(load):
    assert load(COOK + "# ${UNSET} ${ ${vars.none}\n")


def test_unset_variable_is_named_with_its_position(refusal):
    message = refusal("cooks:\n  - name: ann\n    speciality: a ${UNSET_DISH}\n")
    assert message == (
        "coulisse.yaml:3:19: environment variable 'UNSET_DISH' is not set; set it, "
        "or give a default with ${UNSET_DISH:-default}"
    )


def test_each_placeholder_in_a_block_has_its_position(refusal):
    text = "cooks:\n- name: >\n    ${UN_A} b\n\n    c ${UN_B}${UN_C}\n"
    places = [line.split(": ")[0] for line in refusal(text).splitlines()]
    assert places == [f"coulisse.yaml:{p}" for p in ("3:5", "5:7", "5:14")]


def test_unset_variable_is_reported_once(refusal):
    message = refusal("cooks: [{name: ${UN_A}, pace: ${UN_B}}]\n")
    assert len(message.splitlines()) == 2


def test_aliased_bad_placeholder_is_reported_once(refusal):
    message = refusal("cooks: [&c {name: ${UN_A}}, *c]\n")
    assert len(message.splitlines()) == 1


def test_unclosed_placeholder_does_not_swallow_the_file(refusal):
    message = refusal("cooks:\n  - name: ${ANN\n    speciality: x}\n    pace: y\n")
    first, second = message.splitlines()
    assert first.startswith("coulisse.yaml:2:11: '${' has no closing '}'")
    assert second.startswith("coulisse.yaml:4:5: ")


@pytest.mark.parametrize(
    "token", ["${}", "${a b}", "${1X}", "${X-y}", "${x.y}", "${X:-${Y}}", "${vars.}"]
)
def test_invalid_placeholder_is_refused(refusal, token):
    assert "is not a valid placeholder" in refusal(f"cooks:\n- name: x {token}\n")


VARS = (
    "vars:\n  rules: |\n    Be kind.\n\n    Be ${TONE:-quick}.\n  one: ${vars.rules}\n"
)


def test_snippet_is_inserted_with_indentation(load):
    text = VARS + "cooks:\n- name: ann\n  speciality: |\n    Hi\n      ${vars.rules}"
    value = load(text).get(COOKS)[0].speciality
    assert value == "Hi\n  Be kind.\n\n  Be quick.\n"


def test_environment_variable_is_not_indented(load, monkeypatch):
    monkeypatch.setenv("PEM", "a\nb")
    assert speciality(load, "|\n      x\n        ${PEM}") == "x\n  a\nb\n"


def test_nested_snippet_stays_text(load):
    config = load(VARS + "cooks: [{name: '${vars.one}'}]")
    assert config.get(COOKS)[0].name == "${vars.rules}"


def test_unknown_snippet_suggests_a_similar_one(refusal):
    message = refusal(VARS + "cooks:\n  - name: ${vars.ruls}\n")
    assert message == (
        "coulisse.yaml:8:11: variable 'ruls' is not defined under vars:; did you "
        "mean 'rules'?"
    )


def test_snippet_without_vars_prefix_is_suggested(refusal):
    assert "did you mean '${vars.rules}'?" in refusal(
        VARS + "cooks: [{name: ${rules}}]"
    )


def test_snippets_must_be_text(refusal):
    message = refusal("vars: {n: 3, l: [a]}\ncooks: [{name: '${vars.n}'}]\n")
    assert message.splitlines() == [
        "coulisse.yaml:1:14: variable 'l': must be text, not a list",
    ]


def test_oversized_snippet_expansion_is_refused():
    expander = Expander({}, {"long": "x" * 1_000_000, "lines": "\n" * 500_000})
    for text in ("${vars.long}" * 9, f"{' ' * 100}${{vars.lines}}"):
        expander.expanded = 0
        expander.expand(hide(text))
        assert [failure.message for failure in expander.failures] == [
            "placeholders expand the document by more than 8,388,608 characters; use "
            "fewer placeholders"
        ]


def test_placeholder_failures_are_limited():
    expander = Expander({})
    expander.expand(hide("${NOPE}" * 100_000))
    assert len(expander.failures) == 100


def test_many_placeholders_on_a_line_take_linear_time():
    def expand(count: int) -> None:
        line = "x" * 100 * count
        text = Expander({}).expand(line + hide("${NOPE:-x}" * count))
        assert text == line + "x" * count

    assert growth.grows_slowly(partial(expand, 375), partial(expand, 3000))


def test_snippet_indentation_is_computed_per_line():
    snippets = {"two": "1\n2"}
    text = Expander({}, snippets).expand(hide("  ${vars.two}\n ${vars.two}${vars.two}"))
    assert text == "  1\n  2\n 1\n 21\n 2"
