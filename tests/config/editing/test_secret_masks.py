"""Masked secrets: all are hidden, none is lost, and no mask is written."""

import copy
from functools import partial

import pytest
from hypothesis import settings
from ruamel.yaml import YAML

from config.editing import content_patch, document, secret_masks, secret_restoration
from config.errors import ConfigInvalid
from tests import growth
from tests.config.editing.vault_sections import masked, parsed, restored

pytestmark = pytest.mark.usefixtures("vault_sections")
MANY = settings(max_examples=15, derandomize=True)
MASK = secret_masks.MASK


FILE = """\
vaults: # all of them
  main: &main
    password: hunter2 # the old one
    note: nobody knows
    # password: hunter1
    doors:
      - name: front
        key: "front key"
      - {name: back, key: 'back key', colour: red}
    env: {MODE: quiet, URL: ${URL}}
  # token: ${TOKEN} stays, tokens: 5
  spare:
    <<: *main
    password: |
      two
      lines
    extra:
      api_token: abc123
      max_tokens: 200
      list: [{session: s1}]
loose:
  openai_key: sk-0123456789abcdef0123
  auth: Bearer ${TOKEN:-fallback1}
  where: http://me:mine@localhost/
  plain: words
"""


def test_secrets_are_masked_in_place():
    assert masked(FILE) == (
        FILE.replace("hunter2", MASK)
        .replace("hunter1", MASK)
        .replace('"front key"', MASK)
        .replace("'back key'", MASK)
        .replace("quiet", MASK)
        .replace("|\n      two\n      lines", MASK)
        .replace("abc123", MASK)
        .replace("s1}", f"{MASK}}}")
        .replace("sk-0123456789abcdef0123", MASK)
        .replace("fallback1", MASK)
        .replace("http://me:mine@localhost/", MASK)
    )


def test_masked_text_can_be_saved_again():
    assert restored(masked(FILE), FILE) == FILE.replace("'back key'", "'back key'")


def test_masked_text_is_valid_yaml():
    text = "loose: {auth: 'Bearer ${TOKEN:-fallback1}', plain: words}\n"
    masked_text = masked(text)
    assert masked_text == text.replace("fallback1", MASK).replace("'", '"')
    assert (
        YAML(typ="safe").load(masked_text)
        == secret_masks.mask_document(document.parse_document(text.encode())).data
    )
    assert restored(masked_text, text).replace('"', "'") == text


def in_comments(count: int) -> str:
    return (
        "".join(f"# api_key: secret-{n}-{'x' * 9}\n" for n in range(count)) + "a: b\n"
    )


def in_a_list(count: int) -> str:
    return f"tokens: [{', '.join(f'secret-{n}-of-many' for n in range(count))}]\n"


@pytest.mark.parametrize(("text", "count"), [(in_comments, 8_000), (in_a_list, 2_000)])
def test_unmasking_many_secrets_takes_linear_time(text, count):
    """Compared each with each they took many seconds."""

    def unmask(text: str) -> None:
        old = document.parse_document(text.encode())
        assert (
            secret_restoration.restore_content(
                secret_masks.mask_document(old).content, old, ""
            )
            == text.encode()
        )

    assert growth.grows_slowly(
        partial(unmask, text(count // 8)), partial(unmask, text(count))
    )


def test_masked_data_has_the_same_masks():
    data = secret_masks.mask_document(document.parse_document(FILE.encode())).data
    assert data["vaults"]["main"]["password"] == MASK
    assert data["vaults"]["spare"]["doors"][0] == {"name": "front", "key": MASK}
    assert data["vaults"]["spare"]["extra"]["max_tokens"] == 200
    assert data["loose"]["auth"] == f"Bearer ${{TOKEN:-{MASK}}}"


def test_placeholders_are_not_masked():
    text = "vaults: {a: {password: '${PASSWORD}', note: '${NOTE}'}}\n"
    assert masked(text) == text


def test_mask_keeps_its_secret_when_the_entry_moves():
    typed = f"""\
vaults:
  main:
    doors:
    - {{key: {MASK}, name: back}}
    - name: front
      key: {MASK}
"""
    assert parsed(restored(typed, FILE))["vaults"]["main"]["doors"] == [
        {"key": "back key", "name": "back"},
        {"name": "front", "key": "front key"},
    ]


@pytest.mark.parametrize(
    ("typed", "place"),
    [
        (f"vaults: {{other: {{password: {MASK}}}}}", "vaults.other.password"),
        (f"vaults: {{main: {{doors: [{{name: x, key: {MASK}}}]}}}}", "doors.0.key"),
        (f"vaults: {{main: {{note: {MASK}}}}}", "vaults.main.note"),
        (f"vaults: {{main: {{password: my {MASK}}}}}", "vaults.main.password"),
        (f"vaults: {{main: {{password: '{MASK}{MASK}'}}}}", "vaults.main.password"),
        (f"vaults: {{main: {{env: {{NEW: {MASK}}}}}}}", "vaults.main.env.NEW"),
        (f"vaults: {{{MASK}: {{}}}}", "key"),
        (f"vaults: {{}} # {MASK}", "comment"),
    ],
)
def test_mask_without_a_secret_is_refused(typed, place):
    with pytest.raises(ConfigInvalid, match=place) as caught:
        restored(typed, FILE)
    assert all(p.code == "coulisse.E016" for p in caught.value.problems)
    assert caught.value.problems[0].position.line == 1


def test_refusal_shows_no_secret():
    with pytest.raises(ConfigInvalid) as caught:
        restored(
            f"vaults: {{x: {{password: {MASK}}}, main: {{password: zebra}}}}", FILE
        )
    assert "hunter" not in str(caught.value)
    assert "zebra" not in str(caught.value)


def test_unnamed_entries_are_matched_by_content():
    text = "vaults: {a: {doors: [{colour: red, key: r}, {colour: blue, key: b}]}}\n"
    typed = (
        f"vaults: {{a: {{doors: [{{colour: blue, key: {MASK}}}, "
        f"{{colour: red, key: {MASK}}}]}}}}\n"
    )
    assert parsed(restored(typed, text))["vaults"]["a"]["doors"] == [
        {"colour": "blue", "key": "b"},
        {"colour": "red", "key": "r"},
    ]
    changed = masked(text).replace("blue", "green")
    assert parsed(restored(changed, text))["vaults"]["a"]["doors"][1]["key"] == "b"
    with pytest.raises(ConfigInvalid):
        restored(changed.replace("red", "white"), text)


@pytest.mark.parametrize("copies", [2, 3])
def test_copied_entry_does_not_copy_its_secret(copies):
    text = "vaults: {a: {doors: [{colour: red, key: r}, {colour: blue, key: b}]}}\n"
    entries = ", ".join([f"{{colour: red, key: {MASK}}}"] * copies)
    with pytest.raises(ConfigInvalid, match="this is a mask"):
        restored(f"vaults: {{a: {{doors: [{entries}]}}}}\n", text)


def test_names_that_look_like_secrets_are_shown():
    door = "{name: sk-0123456789abcdef0123, key: x}"
    text = f"vaults: {{a: {{doors: [{door}, {{name: b, key: y}}]}}}}\n"
    assert masked(text) == text.replace("x}", f"{MASK}}}").replace("y}", f"{MASK}}}")
    assert restored(masked(text), text) == text


def test_lists_of_secrets_are_matched_by_position():
    text = "vaults: {a: {doors: [{name: x, codes: [one, two, three]}]}}\n"
    typed = masked(text).replace(f"[{MASK}, {MASK}, {MASK}]", f"[{MASK}, new, {MASK}]")
    codes = parsed(restored(typed, text))["vaults"]["a"]["doors"][0]["codes"]
    assert codes == ["one", "new", "three"]
    with pytest.raises(ConfigInvalid):
        restored(masked(text).replace(f"{MASK}, ", "", 1), text)


def test_repeated_secret_is_masked_everywhere():
    text = (
        "vaults:\n  a:\n    password: swordfish\n    note: say swordfish\n# swordfish\n"
    )
    assert "swordfish" not in masked(text)
    assert restored(masked(text), text) == text


def test_aliased_secret_is_masked_at_its_anchor():
    text = "loose: {word: &w swordfish}\nvaults: {a: {password: *w}}\n"
    assert masked(text) == text.replace("swordfish", MASK)
    assert restored(masked(text), text) == text
    assert (
        secret_masks.mask_document(document.parse_document(text.encode())).data[
            "loose"
        ]["word"]
        == MASK
    )


def test_alias_of_a_mask_takes_the_secret_of_its_anchor():
    text = "loose: {password: &w swordfish}\nvaults: {a: {note: plain}}\n"
    typed = masked(text).replace("plain", "*w")
    assert restored(typed, text) == text.replace("plain", "*w")


def test_argument_after_a_secret_option_is_masked():
    text = (
        "vaults:\n  a:\n    extra:\n"
        "      args: [--password, hunter2, --verbose, -v, --token, ${T}, --key, -n]\n"
    )
    assert masked(text) == text.replace("hunter2", MASK)
    assert restored(masked(text), text) == text


def test_list_under_a_secret_name_is_masked():
    text = (
        "vaults:\n  a:\n"
        "    extra: {api_tokens: [hunter2, [hunter3]], words: [plain]}\n"
        "    key_words: [shown]\n"
    )
    assert masked(text) == text.replace("hunter2", MASK).replace("hunter3", MASK)
    assert restored(masked(text), text) == text


@pytest.mark.parametrize("value", ["[hunter2]", "{text: hunter2}", "[{a: [hunter2]}]"])
def test_secret_of_the_wrong_type_is_masked(value):
    text = f"vaults: {{a: {{password: {value}, note: plain}}}}\n"
    assert masked(text) == text.replace("hunter2", MASK)
    assert restored(masked(text), text) == text


def test_multi_line_secret_keeps_its_lines_at_its_column():
    block = "    password: |\n      -- BEGIN\n      abc\n"
    text = f"vaults:\n  a:\n{block}    note: x\n"
    typed = f"vaults:\n  a:\n    note: y\n    password: {MASK}\n"
    assert restored(typed, text) == f"vaults:\n  a:\n    note: y\n{block}"
    for other in (
        typed.replace("    ", "        "),
        typed.replace(MASK, f"{MASK} # x"),
    ):
        after = parsed(restored(other, text))
        assert after["vaults"]["a"] == {"note": "y", "password": "-- BEGIN\nabc\n"}


def test_masked_data_keeps_secrets_of_other_entries():
    doc = document.parse_document(FILE.encode())
    data = copy.deepcopy(secret_masks.mask_document(doc).data)["vaults"]
    data["main"]["note"] = "new"
    data["main"]["doors"].reverse()
    after = parsed(content_patch.put_data(doc, ("vaults",), data).decode())
    assert after["vaults"]["main"]["password"] == "hunter2"
    assert after["vaults"]["main"]["doors"] == [
        {"name": "back", "key": "back key", "colour": "red"},
        {"name": "front", "key": "front key"},
    ]
    with pytest.raises(ConfigInvalid, match=r"vaults\.new\.password"):
        content_patch.put_data(doc, ("vaults", "new"), {"password": MASK})
