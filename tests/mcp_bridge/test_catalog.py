"""The tools of a server that models can use; others are ignored by name."""

import mcp_types
import pytest

from mcp_bridge.tools import catalog


class Pages:
    """A session whose server lists tools page by page."""

    def __init__(self, *pages: tuple[list[mcp_types.Tool], str | None]) -> None:
        self.pages = iter(pages)
        self.asked: list[str | None] = []

    async def list_tools(self, *, params=None):
        self.asked.append(params.cursor if params else None)
        tools, cursor = next(self.pages)
        return mcp_types.ListToolsResult(tools=tools, next_cursor=cursor)


def tool(name="a", schema=None, **fields):
    return mcp_types.Tool(name=name, input_schema=schema or {}, **fields)


async def read(*tools):
    warnings: list[str] = []
    return await catalog.list_tools(
        Pages((list(tools), None)), warnings.append
    ), warnings


async def test_tools_are_sorted_by_name():
    catalog_tools, _ = await read(tool("b"), tool("c"), tool("a"))
    assert [offer.name for offer in catalog_tools] == ["a", "b", "c"]


async def test_title_replaces_a_missing_description():
    (offer,), _ = await read(tool(title="Adds"))
    assert offer.description == "Adds"


async def test_description_is_truncated():
    (offer,), _ = await read(tool(description="x" * 9000))
    assert offer.description == "x" * 8000


async def test_schema_without_a_type_becomes_object():
    (offer,), _ = await read(tool(schema={"required": ["a"]}))
    assert offer.parameters == {"type": "object", "properties": {}, "required": ["a"]}


async def test_repeated_cursor_ends_the_pagination():
    pages = Pages(([tool("a")], "1"), ([tool("b")], "1"))
    assert len(await catalog.list_tools(pages, print)) == 2
    assert pages.asked == [None, "1"]


@pytest.mark.parametrize(
    "schema",
    [
        {"properties": {"a": {"maximum": 10**30}}},
        {"description": "half of \ud83d"},
    ],
    ids=["number", "text"],
)
async def test_unserialisable_schema_drops_only_its_tool(schema):
    catalog_tools, warnings = await read(tool("bad", schema), tool("good"))
    assert [offer.name for offer in catalog_tools] == ["good"]
    assert warnings == ["tool 'bad' is ignored: its schema cannot be written as JSON"]


def test_unknown_schema_dialect_is_not_fetched():
    dialect = {"$schema": "https://example.com/mine", "properties": {}}
    assert catalog.find_schema_problem(dialect) is None
