"""docs/memories-api.md matches the API's parameters and responses."""

import re
import uuid
from pathlib import Path

import orjson
import pytest
from pydantic.fields import FieldInfo

from core.ids import UserId
from memory.api.schemas import (
    MemoriesQuery,
    MemoryChanges,
    MemoryObject,
    MemorySearchBody,
    NewMemory,
)
from memory.user_data import erasure, export
from tests.docs.pages import BASE, CODE, names_in_table, table_rows

PAGE = "memories-api.md"
TEXT = Path(BASE / "docs" / PAGE).read_text()


def field_names(model: type) -> set[str]:
    fields = model.model_fields.items()
    return {field.alias or name for name, field in fields}


@pytest.mark.parametrize(
    ("heading", "model"),
    [
        ("field of a new memory", NewMemory),
        ("parameter of a list", MemoriesQuery),
        ("field of a search", MemorySearchBody),
    ],
)
def test_model_fields_are_documented_with_defaults(heading, model):
    assert names_in_table(PAGE, heading) == field_names(model)
    for first, default, *_ in table_rows(PAGE, heading):
        for name in CODE.findall(first):
            field = model.model_fields["in_" if name == "in" else name]
            assert default == default_of(field), name


def default_of(field: FieldInfo) -> str:
    """Return the default of a field in the format of the table."""
    if field.is_required():
        return "required"
    if field.default is None:
        return "none"
    return f"`{orjson.dumps(field.default).decode()}`".replace('"', "")


def test_change_fields_are_documented():
    more = names_in_table(PAGE, "field of a change")
    assert more == field_names(MemoryChanges) - field_names(NewMemory)
    assert field_names(NewMemory) <= field_names(MemoryChanges)


def test_documented_example_is_a_valid_memory():
    example = orjson.loads(re.search(r"```json\n(\{\n  \"id\".*?)```", TEXT, re.S)[1])
    assert MemoryObject.model_validate(example)
    assert example.keys() == field_names(MemoryObject)


@pytest.mark.database
@pytest.mark.usefixtures("database")
def test_export_keys_are_documented():
    document = orjson.loads(b"".join(export.iter_chunks(UserId(uuid.uuid4()))))
    assert names_in_table(PAGE, "key of an export") == document.keys()


def test_erasure_receipt_tables_are_documented():
    shown = re.search(r"\"would_delete\": (\{.*?\})", TEXT, re.S)[1]
    assert orjson.loads(shown).keys() == erasure.user_rows(UserId(uuid.uuid4())).keys()
