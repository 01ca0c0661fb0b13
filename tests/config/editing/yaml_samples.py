"""Hypothesis strategies for YAML files in every style, with comments."""

import json

from hypothesis import strategies as st

NAMES = st.sampled_from(["ann", "bob", "cy", "dee", "x y", "7"])
WORDS = st.sampled_from(
    [
        "a",
        "b c",
        "yes",
        "1",
        "'q'",
        '"',
        "# no",
        "k: v",
        "- x",
        "",
        " pad ",
        "é",
        "${HOME}",
        "x${A:-b: c}",
        "two\nlines",
        "two\nlines\n",
        "[",
        "{",
        "&a",
        "*a",
        "null",
        "2024-01-01",
        "\ttab",
        "%",
        "@",
        "end:",
        "a" * 90,
    ]
)
SCALARS = st.one_of(
    WORDS, st.integers(-5, 5), st.booleans(), st.none(), st.just(0.5), st.just(1e9)
)
DATA = st.recursive(
    SCALARS,
    lambda below: st.one_of(
        st.lists(below, max_size=3),
        st.dictionaries(NAMES, below, max_size=3),
        st.lists(st.dictionaries(NAMES, below, max_size=2), max_size=3).map(
            lambda items: [{"name": f"n{i}", **it} for i, it in enumerate(items)]
        ),
    ),
    max_leaves=8,
)
SECTIONS = ["one", "two", "three"]
FILES = st.fixed_dictionaries(dict.fromkeys(SECTIONS, DATA))


@st.composite
def yaml_files(draw, files=FILES):
    """Return data and a text that says it, somehow."""
    data = draw(files)
    line_end = draw(st.sampled_from(["\n", "\n", "\r\n"]))
    rows = []
    for key, value in data.items():
        if draw(st.booleans()):
            rows.append(draw(st.sampled_from(["", "# above", "#\n# two"])))
        rows += entry(draw, draw(st.sampled_from([key, f'"{key}"'])), value, 0)
    rows += draw(st.sampled_from([[], [""], ["# the end"], ["", "# the end", ""]]))
    text = "\n".join(rows) + draw(st.sampled_from(["\n", ""]))
    mark = draw(st.sampled_from(["", "", "\ufeff"]))
    return data, mark + text.replace("\n", line_end)


def entry(draw, key, value, indent):
    """Return the lines of a map's entry."""
    pad = " " * indent
    comment = draw(st.sampled_from(["", "", " # here"]))
    if not isinstance(value, dict | list) or not value or draw(st.integers(0, 3)) == 0:
        return [f"{pad}{key}: {flow(value)}{comment}"]
    deeper = indent + draw(st.sampled_from([2, 4]))
    if isinstance(value, list):
        deeper = draw(st.sampled_from([indent, deeper]))
    return [f"{pad}{key}:{comment}", *block(draw, value, deeper)]


def block(draw, value, indent):
    rows = []
    pad = " " * indent
    for item in value.items() if isinstance(value, dict) else value:
        if draw(st.integers(0, 4)) == 0:
            rows.append(draw(st.sampled_from(["", f"{pad}# on this", "  # odd"])))
        if isinstance(value, dict):
            rows += entry(draw, flow(item[0]), item[1], indent)
        elif isinstance(item, dict) and item and draw(st.booleans()):
            first, *rest = block(draw, item, indent + 2)
            if first.strip() and not first.strip().startswith("#"):
                rows += [f"{pad}- {first[indent + 2 :]}", *rest]
            else:
                rows += [f"{pad}-", first, *rest]
        else:
            rows.append(f"{pad}- {flow(item)}")
    if draw(st.integers(0, 5)) == 0:
        rows.append(f"{pad}  # last")
    return rows


def flow(value):
    """Return a value on one line: JSON is YAML."""
    return json.dumps(value, ensure_ascii=False)
