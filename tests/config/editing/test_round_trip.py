"""Changes of data by ruamel.yaml's round trip, and what it keeps."""

import copy

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from config.editing import (
    blocks,
    content_patch,
    data_comparison,
    document,
    round_trip,
)
from config.errors import ConfigInvalid
from tests.config.editing.yaml_samples import DATA, SECTIONS, yaml_files

MANY = settings(max_examples=15, derandomize=True)


def merge(text, place, data):
    return content_patch.put_data(
        document.parse_document(text.encode()), place, data
    ).decode()


FILE = """\
menu: # of the day
  # hot
  soup: 3 # with bread

  cake: '5'
  drinks: [tea, milk] # cold
cooks:
  # the first
  - name: ann
    pace: 1.0 # slow
  # the second
  - name: bob

  - name: cy
    note: |
      two
      lines
"""


def test_equal_data_keeps_the_text():
    data = copy.deepcopy(document.parse_document(FILE.encode()).data)
    data["cooks"][0]["pace"] = 1  # as JSON may say 1.0
    for place in [(), ("menu",), ("cooks",)]:
        wanted = data if place == () else data[place[0]]
        assert merge(FILE, place, wanted) == FILE


def test_changed_value_keeps_its_comment():
    after = merge(FILE, ("menu",), {"soup": 4, "cake": "5", "drinks": ["tea", "milk"]})
    assert after == FILE.replace("soup: 3 #", "soup: 4 #")


def test_fields_are_added_and_removed_around_comments():
    after = merge(FILE, ("menu",), {"soup": 3, "tart": {"size": 2}, "cake": "5"})
    assert after == FILE.replace(
        "  drinks: [tea, milk] # cold\n", "  tart:\n    size: 2\n"
    )


def test_moved_list_entries_keep_the_comments_below_them():
    """ruamel.yaml attaches a comment to what stands above it."""
    cooks = document.parse_document(FILE.encode()).data["cooks"]
    after = merge(FILE, ("cooks",), [cooks[1], cooks[0]])
    assert after.endswith(
        "cooks:\n  # the first\n  - name: bob\n\n"
        "  - name: ann\n    pace: 1.0 # slow\n  # the second\n"
    )


def test_removed_list_entry_leaves_the_comments_above_it():
    cooks = document.parse_document(FILE.encode()).data["cooks"]
    after = merge(FILE, ("cooks",), [cooks[0], cooks[2]])
    assert after == FILE.replace("  - name: bob\n\n", "")


def test_new_entry_comes_last():
    cooks = document.parse_document(FILE.encode()).data["cooks"]
    after = merge(FILE, ("cooks",), [*cooks, {"name": "dee", "note": "a\nb\n"}])
    assert after == FILE + "  - name: dee\n    note: |\n      a\n      b\n"


def test_aliased_value_is_changed_only_there():
    text = "a: &x {k: 1} # base\nb: *x # same\n"
    assert merge(text, ("b",), {"k": 2}) == "a: &x {k: 1} # base\nb: # same\n  k: 2\n"


def test_merged_value_is_overridden_where_it_differs():
    text = "a: &x {k: 1, l: 2}\nb:\n  <<: *x # base\n  m: 3\n"
    after = merge(text, ("b",), {"k": 1, "l": 5, "m": 3})
    assert after == "a: &x {k: 1, l: 2}\nb:\n  <<: *x # base\n  m: 3\n  l: 5\n"
    after = merge(text, ("b",), {"k": 1, "m": 3})
    assert document.parse_document(after.encode()).data["b"] == {"k": 1, "m": 3}


def test_change_of_a_shared_anchor_is_refused():
    text = "a: &x\n  k: 1\nb: *x\n"
    with pytest.raises(ConfigInvalid, match=r"anchors \(&name\)"):
        merge(text, ("a",), {"k": 2})


def test_quoted_text_stays_quoted():
    assert merge("a: '1'\n", ("a",), "2") == "a: '2'\n"
    assert merge("a: 1\n", ("a",), True) == "a: true\n"


@MANY
@given(yaml_files(), st.sampled_from(SECTIONS), DATA)
def test_merged_text_parses_to_the_new_data(sample, key, new):
    data, text = sample
    after = document.parse_document(merge(text, (key,), new).encode())
    # None removes the key.
    rest = {name: value for name, value in data.items() if name != key}
    expected = rest if new is None else {**data, key: new}
    assert data_comparison.is_same(after.data, expected)


@MANY
@given(st.lists(DATA, min_size=2, max_size=6))
def test_equal_fingerprints_mean_equal_values(values):
    samples = [*values, 1, 1.0, True, "1", "", None, False, 0, [], {}, [1], {"a": [0]}]
    for one in samples:
        for other in samples:
            have_equal_keys = data_comparison.comparison_key(
                one
            ) == data_comparison.comparison_key(other)
            assert have_equal_keys == data_comparison.is_same(one, other)


def test_named_entry_differs_from_equal_looking_text():
    assert data_comparison.matching_key({"name": "a"}) != data_comparison.matching_key(
        "name:a"
    )


KEPT = """\
list: # its comment
    - name: a    # far
      octal: 0o7
      long: 1_000
      float: 1e3
      null: ~
      empty:
      switch: True
      date: 2024-01-01
      word: yes
      single: 'it''s'
      double: "\\u00e9"
      "key": ${NAME:-a: b} # hidden
      anchor: &base {k: 1, l: [a,   b]}
      folded: >-
        one
        two

        three
      literal: |+
        one

    # on the second
    - <<: *base
      name: b
      other: *base

    - "a"
"""


def test_words_quotes_comments_and_anchors_of_a_list_stay():
    data = document.parse_document(KEPT.encode()).data["list"]
    after = merge(KEPT, ("list",), [data[0], data[1], "b"])
    shown = KEPT.replace('- "a"', '- "b"').replace("\\u00e9", "é")
    assert after == shown.replace("a,   b", "a, b")


@pytest.mark.parametrize(
    ("text", "after"),
    [
        ("a: [x, # one\n  y]\n", "a: [x, z]\n"),
        ("a: [ x , y ]\n", "a: [x, z]\n"),
        ("a:\n- x   # far\n- y\n", "a:\n- x   # far\n- z\n"),
        (
            "a:\n- long text\n  on two lines\n- y\n",
            "a:\n- long text on two lines\n- z\n",
        ),
        ("a:\n- x\n# of b\nb: 1\n", "a:\n- x\n- z\n# of b\nb: 1\n"),
        ('{"a": ["x", "y"], "b": 1}', '{"a": ["x", "z"], "b": 1}'),
    ],
    ids=["flow comment", "flow spaces", "column", "folded", "gap", "json"],
)
def test_layout_that_changes_inside_a_changed_value(text, after):
    old = document.parse_document(text.encode()).data["a"]
    new = [*(each for each in old if each != "y"), "z"]
    assert merge(text, ("a",), new) == after


def test_alias_of_another_section_stays():
    text = "base: &base\n  k: 1\nlist:\n- <<: *base\n  name: a # shared\n  l: 2\n"
    after = merge(text, ("list",), [{"k": 1, "name": "a", "l": 3}])
    assert after == text.replace("l: 2", "l: 3")


@MANY
@given(yaml_files(), st.sampled_from(SECTIONS), DATA, st.booleans())
def test_edit_changes_no_line_of_other_sections(sample, key, new, is_text):
    data, text = sample
    doc = document.parse_document(text.encode())
    if is_text:
        typed = round_trip.dump_block(new)
        content = content_patch.put_text(doc, (key,), typed)
    else:
        content = content_patch.put_data(doc, (key,), new)
    after = document.parse_document(content)
    rest = {name: value for name, value in data.items() if name != key}
    expected = rest if new is None else {**data, key: new}
    assert data_comparison.is_same(after.data, expected)
    assert other_lines(after, key) == other_lines(doc, key)


def other_lines(doc, key):
    """Return the lines of each other section."""
    found = {name: blocks.find_block(doc, (name,)) for name in doc.data if name != key}
    return {name: doc.text[each.start : each.stop] for name, each in found.items()}


@pytest.mark.parametrize(
    "text",
    ["a\x85b", "a\u2028b\n", "\ttab", "a\n\tb", "\x07", "a  \nb\n", " a\n", "a\n\n"],
)
def test_every_text_stays_in_dumped_data(text):
    dumped = round_trip.dump_block({"a": [text], "b": text}) + "\n"
    assert document.parse_document(dumped.encode()).data == {"a": [text], "b": text}
