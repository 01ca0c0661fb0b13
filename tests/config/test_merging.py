"""Data is written into a text by changing what differs."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from config.editing import content_patch
from config.editing.round_trip import data_merge, document, text_edits
from config.errors import ConfigInvalid

from .writing import DATA, SECTIONS, written

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


def test_what_says_the_same_stays_as_it_is_written():
    data = document.parse_document(FILE.encode()).data
    data["cooks"][0]["pace"] = 1  # as JSON may say 1.0
    for place in [(), ("menu",), ("cooks",), ("cooks", "cy")]:
        wanted = data if place == () else data[place[0]]
        if place == ("cooks", "cy"):
            wanted = wanted[2]
        assert merge(FILE, place, wanted) == FILE


def test_one_value_changes_and_its_comment_stays():
    after = merge(FILE, ("menu",), {"soup": 4, "cake": "5", "drinks": ["tea", "milk"]})
    assert after == FILE.replace("soup: 3 #", "soup: 4 #")


def test_fields_come_and_go_around_comments():
    after = merge(FILE, ("menu",), {"soup": 3, "tart": {"size": 2}, "cake": "5"})
    assert after == FILE.replace(
        "  drinks: [tea, milk] # cold\n", "  tart:\n    size: 2\n"
    )


def test_entries_of_a_list_keep_their_comments_where_they_go():
    cooks = document.parse_document(FILE.encode()).data["cooks"]
    after = merge(FILE, ("cooks",), [cooks[1], cooks[0]])
    assert after.endswith(
        "cooks:\n  # the second\n  - name: bob\n\n  # the first\n"
        "  - name: ann\n    pace: 1.0 # slow\n"
    )


def test_an_entry_that_is_gone_leaves_the_comments_above_it():
    cooks = document.parse_document(FILE.encode()).data["cooks"]
    after = merge(FILE, ("cooks",), [cooks[0], cooks[2]])
    assert after == FILE.replace("  - name: bob\n", "")


def test_an_entry_that_is_new_comes_last():
    cooks = document.parse_document(FILE.encode()).data["cooks"]
    after = merge(FILE, ("cooks",), [*cooks, {"name": "dee", "note": "a\nb\n"}])
    assert after == FILE + "\n  - name: dee\n    note: |\n      a\n      b\n"


def test_what_an_alias_stands_for_is_changed_there_alone():
    text = "a: &x {k: 1} # base\nb: *x # same\n"
    assert merge(text, ("b",), {"k": 2}) == "a: &x {k: 1} # base\nb:  # same\n  k: 2\n"


def test_what_a_merge_brings_is_overridden_where_it_differs():
    text = "a: &x {k: 1, l: 2}\nb:\n  <<: *x # base\n  m: 3\n"
    after = merge(text, ("b",), {"k": 1, "l": 5, "m": 3})
    assert after == "a: &x {k: 1, l: 2}\nb:\n  <<: *x # base\n  m: 3\n  l: 5\n"
    after = merge(text, ("b",), {"k": 1, "m": 3})
    assert document.parse_document(after.encode()).data["b"] == {"k": 1, "m": 3}


def test_a_change_that_an_anchor_would_carry_elsewhere_is_refused():
    text = "a: &x\n  k: 1\nb: *x\n"
    with pytest.raises(ConfigInvalid, match="anchors"):
        merge(text, ("a",), {"k": 2})


def test_a_text_in_quotes_stays_one():
    assert merge("a: '1'\n", ("a",), "2") == "a: '2'\n"
    assert merge("a: 1\n", ("a",), True) == "a: true\n"


@MANY
@given(written(), st.sampled_from(SECTIONS), DATA)
def test_it_says_then_what_was_wanted(sample, key, new):
    data, text = sample
    after = document.parse_document(merge(text, (key,), new).encode())
    assert data_merge.is_same(after.data, {**data, key: new})


@MANY
@given(written(), st.data())
def test_the_gentle_way_is_always_found(sample, draw):
    data, text = sample
    key = draw.draw(st.sampled_from(SECTIONS))
    new = draw.draw(DATA)
    doc = document.parse_document(text.encode())
    gentle = content_patch.edit_strategies(doc, (key,), data[key], new)[0]
    content = doc.encode_text(text_edits.apply_edits(doc.text, gentle()))
    assert data_merge.is_same(document.parse_document(content).data, {**data, key: new})


@MANY
@given(st.lists(DATA, min_size=2, max_size=6))
def test_two_values_have_a_gist_in_common_if_they_say_the_same(values):
    known = [*values, 1, 1.0, True, "1", "", None, False, 0, [], {}, [1], {"a": [0]}]
    for one in known:
        for other in known:
            alike = data_merge.canonical_key(one) == data_merge.canonical_key(other)
            assert alike == data_merge.is_same(one, other)


def test_a_name_is_no_text_that_reads_like_one():
    assert data_merge.matching_key({"name": "a"}) != data_merge.matching_key("name:a")
