"""Replacing one value; every other character stays the same."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from config.editing import blocks, content_patch, data_comparison, document
from config.errors import ConfigInvalid
from tests.config.editing.yaml_samples import DATA, SECTIONS, yaml_files

MANY = settings(max_examples=15, derandomize=True)


def replace_value(text, place, new):
    content = content_patch.put_text(document.parse_document(text.encode()), place, new)
    return content.decode()


def remove(text, place):
    return content_patch.remove_entry(
        document.parse_document(text.encode()), place
    ).decode()


def text_at(text, place):
    doc = document.parse_document(text.encode())
    return blocks.text_at(doc, place)


FILE = """\
# The kitchen.
kitchen: # where it happens
  # always
  open: true   # spaces before me

  fuel: "gas"
  # stoves: 3
# The menu.
menu:
  soup: 3
"""


def test_text_around_a_section_is_kept():
    after = replace_value(FILE, ("kitchen",), "open: false # closed\n")
    assert after == (
        "# The kitchen.\nkitchen: # where it happens\n  open: false # closed\n"
        "# The menu.\nmenu:\n  soup: 3\n"
    )


def test_section_text_is_dedented_with_its_comments():
    assert text_at(FILE, ("kitchen",)) == (
        '# always\nopen: true   # spaces before me\n\nfuel: "gas"\n# stoves: 3'
    )


def test_shown_text_can_be_put_back():
    for place in [("kitchen",), ("menu",), ("kitchen", "fuel")]:
        assert replace_value(FILE, place, text_at(FILE, place)) == FILE


def test_line_endings_of_the_file_are_kept():
    text = FILE.replace("\n", "\r\n")
    after = replace_value(text, ("menu",), "soup: 4\ncake: 5\n")
    assert after == text.replace("  soup: 3\r\n", "  soup: 4\r\n  cake: 5\r\n")


def test_browser_line_endings_are_converted():
    assert replace_value(FILE, ("menu",), "soup: 4\r\ncake: 5") == FILE.replace(
        "  soup: 3\n", "  soup: 4\n  cake: 5\n"
    )


def test_byte_order_mark_is_kept():
    assert (
        replace_value("\ufeffmenu: {}\n", ("menu",), "soup: 3")
        == "\ufeffmenu:\n  soup: 3\n"
    )


def test_tabs_in_comments_are_kept():
    text = "a: 1 #\ttab\n#\ttab\nb:\n  c: 2 #\there\n"
    assert replace_value(text, ("b", "c"), "3") == text.replace("2 #", "3 #")


def test_missing_final_newline_is_kept():
    assert replace_value("a: 1\nb:\n  c: 2", ("b",), "c: 3\n") == "a: 1\nb:\n  c: 3"


def test_anchor_at_the_key_is_kept():
    text = "a: &x # base\n  k: 1\nb:\n  <<: *x\n"
    assert replace_value(text, ("a",), "k: 2") == "a: &x # base\n  k: 2\nb:\n  <<: *x\n"


def test_alias_is_replaced_without_its_anchor():
    assert (
        replace_value("a: &x {k: 1}\nb: *x\n", ("b",), "k: 2")
        == "a: &x {k: 1}\nb:\n  k: 2\n"
    )


def test_flow_map_becomes_block_lines():
    text = "a: {k: 1,\n  l: 2} # here\nb: 1\n"
    assert text_at(text, ("a",)) == "{k: 1,\n  l: 2}"
    assert (
        replace_value(text, ("a",), "k: 3\nl: 4") == "a: # here\n  k: 3\n  l: 4\nb: 1\n"
    )
    assert replace_value(text, ("a",), "{}") == "a: {} # here\nb: 1\n"


def test_block_map_becomes_a_scalar():
    text = "a: # here\n  k: 1\n  # gone\nb: 1\n"
    assert replace_value(text, ("a",), "false") == "a: false # here\nb: 1\n"


def test_empty_section_is_filled():
    assert (
        replace_value("a: # here\nb: 1\n", ("a",), "k: 1")
        == "a: # here\n  k: 1\nb: 1\n"
    )
    assert replace_value("b: 1\na:", ("a",), "k: 1") == "b: 1\na:\n  k: 1"
    assert replace_value("a:\nb: 1\n", ("a",), "5") == "a: 5\nb: 1\n"


def test_missing_section_is_appended():
    assert (
        replace_value("a: 1\n# end\n", ("b",), "k: 1") == "a: 1\n# end\n\nb:\n  k: 1\n"
    )
    assert replace_value("a: 1", ("b",), "word") == "a: 1\n\nb: word"
    assert replace_value("a: 1\n...\n", ("b",), "k: 1") == "a: 1\n\nb:\n  k: 1\n...\n"


def test_quoted_key_is_found():
    assert replace_value('"a": 1\n', ("a",), "2") == '"a": 2\n'


def test_repeated_comments_are_not_confused():
    text = "# note\na: 1\n# note\nb: 2\n# note\n"
    assert replace_value(text, ("b",), "3") == "# note\na: 1\n# note\nb: 3\n# note\n"


def test_json_file_stays_json():
    text = '{"a": 1, "b": {"c": 2}}'
    after = replace_value(text, ("b",), "c: 3\nd: x, y")
    assert after == '{"a": 1, "b": {"c": 3, d: \'x, y\'}}'
    assert replace_value(text, ("c",), "k: 1") == '{"a": 1, "b": {"c": 2}, c: {k: 1}}'
    assert remove(text, ("a",)) == '{"b": {"c": 2}}'


def test_map_entries_are_added_and_removed():
    text = "menu:\n  # hot\n  soup: 3\n\n  # sweet\n  cake: 5\n# end\n"
    assert replace_value(text, ("menu", "tea"), "2") == text.replace(
        "cake: 5\n", "cake: 5\n\n  tea: 2\n"
    )
    assert (
        remove(text, ("menu", "cake"))
        == "menu:\n  # hot\n  soup: 3\n\n  # sweet\n# end\n"
    )
    one = remove(remove(text, ("menu", "cake")), ("menu", "soup"))
    assert document.parse_document(one.encode()).data == {"menu": {}}


def test_added_and_removed_entry_leaves_no_gap():
    text = "menu:\n  soup: 3\n\n  cake: 5\n\ncooks: []\n"
    more = replace_value(text, ("menu", "tea"), "2")
    assert more == text.replace("cake: 5\n", "cake: 5\n\n  tea: 2\n")
    assert remove(more, ("menu", "tea")) == text
    expected = "menu:\n  soup: |+\n    a\n\n  tea: 2\n\ncooks: []\n"
    assert document.parse_document(remove(expected, ("menu", "tea")).encode()).data[
        "menu"
    ] == {"soup": "a\n\n"}


def test_multi_line_text_keeps_its_lines():
    text = "a:\n  b: |\n    one\n\n      two\n  c: 1\n"
    assert text_at(text, ("a",)) == "b: |\n  one\n\n    two\nc: 1"
    assert (
        replace_value(text, ("a", "b"), "|\n  three\n")
        == "a:\n  b: |\n    three\n  c: 1\n"
    )


@pytest.mark.parametrize(
    "typed", ["a: 1\n---\nb: 2", "---\na: 1", "%YAML 1.1\n", "a: 1\n...\n"]
)
def test_multiple_documents_are_refused(typed):
    with pytest.raises(ConfigInvalid, match=r"(---|document)"):
        replace_value(FILE, ("menu",), typed)


def test_unclosed_quote_is_refused_at_its_own_line():
    with pytest.raises(ConfigInvalid, match=r"^menu:2:"):
        replace_value(FILE, ("menu",), 'a: 1\nb: "open')


def test_last_entry_of_a_file_cannot_be_removed():
    with pytest.raises(ConfigInvalid, match="empty"):
        remove("a: 1", ("a",))


def test_merged_keys_are_edited_only_at_their_own_place():
    text = "a: &x\n  k: 1\n  m: 2\nb: {<<: *x, l: 2}\nc: *x\n"
    for place in [("b", "k"), ("c", "k")]:
        with pytest.raises(ConfigInvalid, match="also used elsewhere"):
            remove(text, place)
    with pytest.raises(ConfigInvalid, match="also used elsewhere"):
        replace_value(text, ("c", "k"), "5")
    after = replace_value(text, ("b", "k"), "5")
    assert after == text.replace("l: 2", "l: 2, k: 5")
    assert remove(text, ("b", "l")) == text.replace(", l: 2", "")


@MANY
@given(yaml_files())
def test_shown_text_equals_the_data(sample):
    data, text = sample
    doc = document.parse_document(text.encode())
    assert data_comparison.is_same(doc.data, data)
    for key in SECTIONS:
        assert replace_value(text, (key,), text_at(text, (key,))) == text


@MANY
@given(
    yaml_files(),
    st.sampled_from(SECTIONS),
    yaml_files(st.fixed_dictionaries({"new": DATA})),
)
def test_any_value_can_be_put_anywhere(sample, key, other):
    data, text = sample
    (new, new_text) = other
    piece = text_at(new_text, ("new",))
    if piece.strip() in content_patch.EMPTY_TEXTS:
        return
    after = document.parse_document(replace_value(text, (key,), piece).encode())
    assert data_comparison.is_same(after.data, {**data, key: new["new"]})


@MANY
@given(yaml_files(), st.sampled_from(SECTIONS))
def test_any_section_can_be_removed(sample, key):
    data, text = sample
    after = document.parse_document(remove(text, (key,)).encode())
    assert data_comparison.is_same(
        after.data, {k: v for k, v in data.items() if k != key}
    )


@pytest.mark.parametrize("name", ["soup", "bread"])
def test_entry_with_explicit_key_is_removed(name):
    text = "menu:\n  ? soup\n  : hot: 1\n\n  ? bread\n  :\n    price: 2\n  # the end\n"
    remaining = remove(text, ("menu", name))
    assert list(document.parse_document(remaining.encode()).data["menu"]) == [
        *{"soup", "bread"} - {name}
    ]
    assert "the end" in remaining


@pytest.mark.parametrize(
    ("text", "typed", "message"),
    [
        ("a: &x 1\nmenu: 2\nc: *x\n", "&x 5", "change other values"),
        ("menu: |+\n  x\n\n\nb: 2\n", "|+\n  y\n\n", "another meaning"),
        ("menu: 1\nb: 2\n", "|+\n  y\n\n", "another meaning"),
        ("menu: 1\n", "\0", "U.0000 is not allowed in YAML"),
        ("menu: 1\n", "a:\n\tb: 1", "not valid YAML"),
        ("menu: 1\n", " k: 1\nb: 3", "not valid YAML"),
    ],
    ids=["anchor", "gap below", "trailing lines", "nul", "tab", "indentation"],
)
def test_text_that_cannot_be_placed_is_refused(text, typed, message):
    with pytest.raises(ConfigInvalid, match=message):
        replace_value(text, ("menu",), typed)


@pytest.mark.parametrize(
    "text",
    [
        "%YAML 1.1\n---\na: yes\nmenu: 2\n...\n",
        "a: x\u2028y\nmenu: 2\n",
        'a: "x\n\n  y"\nmenu: 2\n',
        "  a: 1\n  menu: 2\n",
        "a: {b: 1,\nc: 2}\nmenu: 2\n",
        "a: &x 0o7\nmenu: 2\nc: &x 1_000\nd: *x\n",
        f"a: {'x' * 100_000}\nmenu: 2\n",
        "".join(f"a{n}: {{b: 1e3}}\n" for n in range(2_000)) + "menu: 2\n",
    ],
    ids=[
        "directive",
        "separator",
        "quoted",
        "indented",
        "braces",
        "anchors",
        "long",
        "large",
    ],
)
def test_lines_of_other_sections_stay_in_unusual_files(text):
    assert replace_value(text, ("menu",), "3") == text.replace("menu: 2", "menu: 3")
    content = content_patch.put_data(
        document.parse_document(text.encode()), ("menu",), {"soup": 1}
    )
    indent = "    " if text.startswith("  ") else "  "
    assert content.decode() == text.replace("menu: 2", f"menu:\n{indent}soup: 1")


def test_white_space_that_is_text_stays():
    text = "a: 1\nmenu: |\n  x  \n  yz\n"
    assert text_at(text, ("menu",)) == "|\n  x  \n  yz"
    after = replace_value(text, ("menu",), "|\n  y  \n")
    assert after == "a: 1\nmenu: |\n  y  \n"
    quoted = "a: 1\nmenu: 'x\u2028y'\n"
    assert text_at(quoted, ("menu",)) == "'x\u2028y'"
    assert replace_value(quoted, ("menu",), "'y\u2028'") == quoted.replace(
        "x\u2028y", "y\u2028"
    )


# Several texts at once.


@pytest.mark.parametrize(
    "texts",
    [
        {("kitchen",): "open: false", ("menu", "soup"): "4"},
        {("menu", "soup"): "", ("menu", "cake"): "{price: 3}"},
        {("wine", "red"): "1", ("wine", "white"): "# cold\n2", ("bar",): "- 1\n- 2"},
        {("menu",): "", ("kitchen",): ""},
        {("menu", "soup"): "", ("none", "x"): "null"},
        {("kitchen", "fuel"): "&f gas", ("menu", "cake"): "*f"},
    ],
    ids=["changed", "removed", "new maps", "removed sections", "last entry", "alias"],
)
def test_several_texts_are_put_as_one_after_the_other(texts):
    text = f"{FILE}# The end.\nlast: 1\n"
    expected = text
    for place, value in texts.items():
        expected = replace_value(expected, place, value)
    doc = document.parse_document(text.encode())
    found = content_patch.put_texts(doc, texts)
    data = document.parse_document(found).data
    assert data_comparison.is_same(
        data, document.parse_document(expected.encode()).data
    )
    comments = [line for line in expected.splitlines() if line.startswith("#")]
    assert [line for line in found.decode().splitlines() if line[:1] == "#"] == comments


def test_several_texts_need_one_check(monkeypatch):
    doc = document.parse_document(FILE.encode())
    checked = []
    put_text = content_patch.put_text
    monkeypatch.setattr(
        content_patch, "put_text", lambda *args: checked.append(1) or put_text(*args)
    )
    texts = {("wine", name): "1" for name in ("red", "white")}
    content_patch.put_texts(doc, {("kitchen",): "open: false", **texts})
    assert not checked


def test_error_of_one_of_several_texts_names_it():
    doc = document.parse_document(FILE.encode())
    with pytest.raises(ConfigInvalid, match=r"menu\.soup:1:"):
        content_patch.put_texts(doc, {("kitchen",): "{}", ("menu", "soup"): "{"})
