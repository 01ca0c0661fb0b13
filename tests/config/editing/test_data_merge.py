"""Writing data into a text by changing only the differences."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from config.editing import content_patch
from config.editing.round_trip import data_merge, document, text_edits
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
    data = document.parse_document(FILE.encode()).data
    data["cooks"][0]["pace"] = 1  # as JSON may say 1.0
    for place in [(), ("menu",), ("cooks",), ("cooks", "cy")]:
        wanted = data if place == () else data[place[0]]
        if place == ("cooks", "cy"):
            wanted = wanted[2]
        assert merge(FILE, place, wanted) == FILE


def test_changed_value_keeps_its_comment():
    after = merge(FILE, ("menu",), {"soup": 4, "cake": "5", "drinks": ["tea", "milk"]})
    assert after == FILE.replace("soup: 3 #", "soup: 4 #")


def test_fields_are_added_and_removed_around_comments():
    after = merge(FILE, ("menu",), {"soup": 3, "tart": {"size": 2}, "cake": "5"})
    assert after == FILE.replace(
        "  drinks: [tea, milk] # cold\n", "  tart:\n    size: 2\n"
    )


def test_moved_list_entries_keep_their_comments():
    cooks = document.parse_document(FILE.encode()).data["cooks"]
    after = merge(FILE, ("cooks",), [cooks[1], cooks[0]])
    assert after.endswith(
        "cooks:\n  # the second\n  - name: bob\n\n  # the first\n"
        "  - name: ann\n    pace: 1.0 # slow\n"
    )


def test_removed_entry_leaves_the_comments_above_it():
    cooks = document.parse_document(FILE.encode()).data["cooks"]
    after = merge(FILE, ("cooks",), [cooks[0], cooks[2]])
    assert after == FILE.replace("  - name: bob\n", "")


def test_new_entry_comes_last():
    cooks = document.parse_document(FILE.encode()).data["cooks"]
    after = merge(FILE, ("cooks",), [*cooks, {"name": "dee", "note": "a\nb\n"}])
    assert after == FILE + "\n  - name: dee\n    note: |\n      a\n      b\n"


def test_aliased_value_is_changed_only_there():
    text = "a: &x {k: 1} # base\nb: *x # same\n"
    assert merge(text, ("b",), {"k": 2}) == "a: &x {k: 1} # base\nb:  # same\n  k: 2\n"


def test_merged_value_is_overridden_where_it_differs():
    text = "a: &x {k: 1, l: 2}\nb:\n  <<: *x # base\n  m: 3\n"
    after = merge(text, ("b",), {"k": 1, "l": 5, "m": 3})
    assert after == "a: &x {k: 1, l: 2}\nb:\n  <<: *x # base\n  m: 3\n  l: 5\n"
    after = merge(text, ("b",), {"k": 1, "m": 3})
    assert document.parse_document(after.encode()).data["b"] == {"k": 1, "m": 3}


def test_change_of_a_shared_anchor_is_refused():
    text = "a: &x\n  k: 1\nb: *x\n"
    with pytest.raises(ConfigInvalid, match="anchors"):
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
    assert data_merge.is_same(after.data, expected)


@MANY
@given(yaml_files(), st.data())
def test_minimal_merge_succeeds_for_any_data(sample, draw):
    data, text = sample
    key = draw.draw(st.sampled_from(SECTIONS))
    new = draw.draw(DATA)
    doc = document.parse_document(text.encode())
    gentle = content_patch.edit_strategies(doc, (key,), data[key], new)[0]
    content = doc.encode_text(text_edits.apply_edits(doc.text, gentle()))
    assert data_merge.is_same(document.parse_document(content).data, {**data, key: new})


@MANY
@given(st.lists(DATA, min_size=2, max_size=6))
def test_equal_fingerprints_mean_equal_values(values):
    samples = [*values, 1, 1.0, True, "1", "", None, False, 0, [], {}, [1], {"a": [0]}]
    for one in samples:
        for other in samples:
            have_equal_keys = data_merge.canonical_key(one) == data_merge.canonical_key(
                other
            )
            assert have_equal_keys == data_merge.is_same(one, other)


def test_named_entry_differs_from_equal_looking_text():
    assert data_merge.matching_key({"name": "a"}) != data_merge.matching_key("name:a")
