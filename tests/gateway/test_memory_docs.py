"""docs/memories-api.md lists what the API takes and says."""

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
from tests.test_docs import BASE, CODE, named, rows

PAGE = "memories-api.md"
TEXT = Path(BASE / "docs" / PAGE).read_text()


def names(model: type) -> set[str]:
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
def test_every_field_is_listed_with_its_default(heading, model):
    assert named(PAGE, heading) == names(model)
    for first, told, *_ in rows(PAGE, heading):
        for name in CODE.findall(first):
            field = model.model_fields["in_" if name == "in" else name]
            assert told == default_of(field), name


def default_of(field: FieldInfo) -> str:
    """The default of a field, in the table's words."""
    if field.is_required():
        return "required"
    if field.default is None:
        return "none"
    return f"`{orjson.dumps(field.default).decode()}`".replace('"', "")


def test_every_field_of_a_change_is_listed():
    more = named(PAGE, "field of a change")
    assert more == names(MemoryChanges) - names(NewMemory)
    assert names(NewMemory) <= names(MemoryChanges)


def test_the_example_is_a_memory():
    example = orjson.loads(re.search(r"```json\n(\{\n  \"id\".*?)```", TEXT, re.S)[1])
    assert MemoryObject.model_validate(example)
    assert example.keys() == names(MemoryObject)


@pytest.mark.database
@pytest.mark.usefixtures("database")
def test_every_key_of_an_export_is_listed():
    document = orjson.loads(b"".join(export.iter_chunks(UserId(uuid.uuid4()))))
    assert named(PAGE, "key of an export") == document.keys()


def test_every_table_of_a_receipt_is_shown():
    shown = re.search(r"\"would_delete\": (\{.*?\})", TEXT, re.S)[1]
    assert orjson.loads(shown).keys() == erasure.user_rows(UserId(uuid.uuid4())).keys()
