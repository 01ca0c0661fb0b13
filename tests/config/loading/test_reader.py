import os
from pathlib import Path

import pytest

from config.errors import ConfigInvalid
from config.loading import loader, scanner
from config.starters import starter_file
from tests.config.conftest import COOK, COOKS, MENU

TOUR = starter_file.TEMPLATES / "tour.yaml"
"""The longest of our examples."""


def read_error(path: Path) -> str:
    with pytest.raises(ConfigInvalid) as caught:
        loader.load_file(path)
    return str(caught.value)


def test_missing_file_error_names_the_remedy(file):
    assert read_error(file).startswith(
        "coulisse.yaml: the file does not exist; `coulisse"
    )


def test_directory_is_refused(file):
    file.mkdir()
    assert read_error(file) == "coulisse.yaml: this is not a file but a directory"


def test_pipe_is_refused_without_blocking(file):
    os.mkfifo(file)
    assert (
        read_error(file) == "coulisse.yaml: this is not a file but a pipe or a device"
    )


def test_device_is_refused():
    assert read_error(Path("/dev/zero")).endswith(
        ": this is not a file but a pipe or a device"
    )


def test_path_through_a_file_is_refused(file):
    file.touch()
    assert "the file cannot be read (Not a directory)" in read_error(
        file / "coulisse.yaml"
    )


@pytest.mark.parametrize("text", ["", "\n\n", "# only a comment\n", "---\n"])
def test_empty_file_is_refused(refusal, text):
    assert "is empty" in refusal(text) or "must be a map" in refusal(text)


@pytest.mark.parametrize("text", ["- a\n", "hello\n", "3\n"])
def test_non_map_is_refused(refusal, text):
    assert refusal(text).startswith("coulisse.yaml:1:1: the file must be a map")


def test_invalid_utf8_is_refused_with_its_position(file):
    file.write_bytes(b"cooks:\n  - name: \xff\xfe\n")
    assert (
        read_error(file)
        == "coulisse.yaml:2:11: the file is not UTF-8 text; save it as UTF-8"
    )


def test_control_characters_are_refused(file):
    file.write_bytes(b"a: \x00\x01\n")
    assert (
        read_error(file)
        == "coulisse.yaml:1:4: character U+0000 is not allowed in YAML; remove it"
    )


@pytest.mark.parametrize("escape", ["\\U99999999", "\\U00110000"])
def test_invalid_unicode_escape_is_refused(refusal, escape):
    assert "is not a character" in refusal(f'cooks: "{escape}"\n')


def test_surrogate_pair_is_joined_and_lone_one_refused(load, refusal):
    config = load('cooks: [{name: "\\uD83D\\uDE00 a"}]\n')
    assert [cook.name for cook in config.get(COOKS)] == ["\U0001f600 a"]
    for text in ('cooks: [{name: "\\uD83D"}]\n', 'cooks: [{"\\uDE00": x}]\n'):
        # The watcher judges what it doubts twice.
        assert "is half a character" in refusal(text) == refusal(text)


@pytest.mark.parametrize("value", ["!!float ''", "!!int ''", "!!int x", "!!bool x"])
def test_mismatched_tag_is_refused(refusal, value):
    assert "is not supported here" in refusal(f"cooks: [{{pace: {value}}}]\n")


def test_huge_file_is_refused(file):
    file.write_bytes(b"# " + b"x" * 1024 * 1024)
    assert read_error(file) == "coulisse.yaml: the file is larger than 1 MiB"


def test_byte_order_mark_and_crlf_are_read(file):
    file.write_bytes(b"\xef\xbb\xbfcooks:\r\n- name: ann\r\nmenu:\r\n  tea: 3\r\n")
    assert loader.load_file(file).get(MENU) == {"tea": 3}


@pytest.mark.parametrize(
    ("text", "place", "hint"),
    [
        ("cooks:\n\t- name: a\n", "2:1", "indent with spaces"),
        ("cooks: a: b\n", "1:9", "needs quotes"),
        ("cooks: [\n", "2:1", ""),
        ("cooks: *ann\n", "1:8", "needs an anchor"),
        ("cooks: 'ann\n", "2:1", "is not closed"),
        ("a: 1\n---\nb: 2\n", "2:1", "the file must be one document"),
    ],
)
def test_parser_errors_have_positions(refusal, text, place, hint):
    message = refusal(text)
    assert message.startswith(f"coulisse.yaml:{place}: not valid YAML: ")
    assert hint in message


def test_duplicate_key_is_refused(refusal):
    message = refusal("cooks:\n  - name: ann\n    name: bob\n")
    assert (
        message == "coulisse.yaml:3:5: key 'name' appears twice in this map; remove one"
    )


def test_duplicate_key_error_shows_no_values(refusal):
    message = refusal("cooks: [{name: a, api_key: sk-1, api_key: sk-2}]\n")
    assert "api_key" in message
    assert "sk-" not in message


def test_keys_equal_after_expansion_are_refused(refusal, monkeypatch):
    monkeypatch.setenv("DISH", "tea")
    assert "'tea' appears twice" in refusal(COOK + "menu: {tea: 1, ${DISH}: 2}\n")


def test_exponential_aliases_are_refused(refusal):
    lines = ["l0: &l0 [lol, lol, lol, lol, lol, lol, lol, lol, lol, lol]"]
    for n in range(1, 12):
        lines.append(f"l{n}: &l{n} [{', '.join([f'*l{n - 1}'] * 10)}]")
    message = refusal("\n".join(lines) + "\ncooks: *l11\n")
    assert "aliases expand the document to more than" in message


def test_exponential_merges_are_refused(refusal):
    lines = ["menu:", "  m0: &m0 {a: 1}"]
    for n in range(1, 30):
        lines.append(f"  m{n}: &m{n} {{<<: [*m{n - 1}, *m{n - 1}]}}")
    assert "aliases expand the document to more than" in refusal("\n".join(lines))


@pytest.mark.parametrize("text", ["cooks: &a [*a]\n", "menu: &m {<<: *m}\n"])
def test_recursive_alias_is_refused(refusal, text):
    assert "aliases expand the document to more than" in refusal(text)


def test_deep_nesting_is_refused(refusal):
    assert "nested more than 64 levels deep" in refusal("cooks: " + "[" * 5000)


def test_merge_keys_are_applied(load):
    text = "menu: {<<: [{tea: 1, pie: 2}, {pie: 9, jam: 3}], tea: 5}\n"
    assert load(COOK + text).get(MENU) == {"tea": 5, "pie": 2, "jam": 3}


@pytest.mark.parametrize(
    "value", ["!!python/object:os.system x", "!mine x", "!!set {}"]
)
def test_tags_are_refused(refusal, value):
    assert "is not supported here" in refusal(f"cooks: {value}\n")


def test_date_is_read_as_text(load):
    config = load("cooks: [{name: 2024-08-06}]\n")
    assert config.values["cooks"][0].name == "2024-08-06"


def test_yaml_1_2_words_are_read_as_text(load):
    assert load("cooks: [{name: on}]\n").values["cooks"][0].name == "on"


def test_too_many_tokens_are_refused_before_parsing(refusal, monkeypatch):
    monkeypatch.setattr(scanner, "MAX_SCANNED", 20)
    dishes = "".join(f"  d{n}: {n}\n" for n in range(6))
    read_error = "coulisse.yaml: the document has more than 20 keys and values"
    assert refusal(f"menu:\n{dishes}  last: [1, 2\n") != read_error
    assert refusal(f"menu:\n{dishes}  last: 1\n  more: [1, 2\n") == read_error


def test_examples_stay_far_below_the_scan_limit(settings):
    paths = [*Path(settings.BASE_DIR).glob("examples/*/*.yaml"), TOUR]
    counts = [len(scanner.parse_events(path.read_text())) for path in paths]
    assert max(counts) < scanner.MAX_SCANNED / 15
