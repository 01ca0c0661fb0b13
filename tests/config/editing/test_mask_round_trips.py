"""Any edit of any file keeps each secret or is refused."""

import copy

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from config.editing import content_patch, document, secret_masks
from config.errors import ConfigInvalid
from tests.config.editing.vault_sections import masked, parsed, restored
from tests.config.editing.yaml_samples import yaml_files

pytestmark = pytest.mark.usefixtures("vault_sections")
MANY = settings(max_examples=15, derandomize=True)
MASK = secret_masks.MASK


SECRETS = st.integers(0, 10**6).map(lambda n: f"s3cr3t-{n:07}")
NAMES = st.sampled_from(["ann", "bob", "cy", "dee"])
DOORS = st.lists(
    st.fixed_dictionaries(
        {"name": NAMES}, optional={"key": SECRETS, "colour": st.just("red")}
    ),
    max_size=3,
    unique_by=lambda door: door["name"],
)
PLAIN = st.fixed_dictionaries(
    {},
    optional={
        "password": SECRETS,
        "note": st.sampled_from(["a", "b\nc\n", "${NOTE}"]),
        "doors": DOORS,
        "env": st.dictionaries(NAMES, SECRETS, max_size=2),
    },
)
VAULT = st.one_of(PLAIN, st.builds(lambda v, i: {**v, "inner": i}, PLAIN, PLAIN))
FILES = st.fixed_dictionaries({"vaults": st.dictionaries(NAMES, VAULT, max_size=3)})


def secrets_of(value, path=()):
    """Return each secret by the names that lead to it."""
    if isinstance(value, dict):
        return {
            place: secret
            for key, item in value.items()
            if key != "name"
            for place, secret in secrets_of(item, (*path, key)).items()
        }
    if isinstance(value, list):
        return {
            place: secret
            for item in value
            for place, secret in secrets_of(item, (*path, item["name"])).items()
        }
    return {path: value} if str(value).startswith("s3cr3t") else {}


@MANY
@given(yaml_files(FILES))
def test_masking_round_trip_keeps_every_secret(sample):
    _, text = sample
    assert "s3cr3t" not in masked(text)
    assert restored(masked(text), text) == text


@MANY
@given(yaml_files(FILES), st.data())
def test_any_edit_keeps_each_secret_or_is_refused(sample, draw):
    data, text = sample
    doc = document.parse_document(text.encode())
    wanted = secret_masks.mask_document(doc).data["vaults"]
    for _ in range(draw.draw(st.integers(1, 3))):
        wanted = edit_vaults(wanted, draw.draw)
    before = secrets_of(data["vaults"])
    masked = {path for path, item in walk(wanted) if item == MASK}
    try:
        content = content_patch.put_data(doc, ("vaults",), wanted)
    except ConfigInvalid:
        assert masked - before.keys()
        return
    after = parsed(content.decode())["vaults"]
    assert MASK not in content.decode()
    for path in masked:
        assert secrets_of(after)[path] == before[path]
    assert (
        "s3cr3t"
        not in secret_masks.mask_document(
            document.parse_document(content)
        ).content.decode()
    )


def walk(value, path=()):
    if isinstance(value, dict):
        for key, item in value.items():
            yield from walk(item, (*path, key))
    elif isinstance(value, list):
        for item in value:
            yield from walk(item, (*path, item["name"]))
    else:
        yield (path[:-1] if path[-1:] == ("name",) else path), value


def edit_vaults(vaults, draw):
    """Return vaults with one typical edit."""
    vaults = copy.deepcopy(vaults)
    if not vaults:
        return {"new": {"password": "s3cr3t-new"}}
    name = draw(st.sampled_from(sorted(vaults)))
    vault = vaults[name]
    match draw(st.sampled_from(["rename", "drop", "reorder", "note", "door", "new"])):
        case "rename":
            vaults["other"] = vaults.pop(name)
        case "drop":
            del vaults[name]
        case "reorder":
            vault["doors"] = list(reversed(vault.get("doors", [])))
        case "note":
            vault["note"] = "changed"
        case "door":
            doors = vault.get("doors", [])
            if doors:
                doors[0]["name"] = "other"
        case "new":
            vault["password"] = "s3cr3t-new"
    return vaults
