"""What of a server's list can be given to a model; the rest is left out by name."""

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
    said: list[str] = []
    return await catalog.list_tools(Pages((list(tools), None)), said.append), said


async def test_tools_are_in_the_order_of_their_names():
    offers, _ = await read(tool("b"), tool("c"), tool("a"))
    assert [offer.name for offer in offers] == ["a", "b", "c"]


async def test_a_title_serves_where_there_is_no_description():
    (offer,), _ = await read(tool(title="Adds"))
    assert offer.description == "Adds"


async def test_a_description_is_cut():
    (offer,), _ = await read(tool(description="x" * 9000))
    assert offer.description == "x" * 8000


async def test_a_schema_without_a_type_is_an_objects():
    (offer,), _ = await read(tool(schema={"required": ["a"]}))
    assert offer.parameters == {"type": "object", "properties": {}, "required": ["a"]}


async def test_a_page_that_leads_to_itself_is_the_last():
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
async def test_a_schema_that_cannot_be_written_costs_its_tool_alone(schema):
    offers, said = await read(tool("bad", schema), tool("good"))
    assert [offer.name for offer in offers] == ["good"]
    assert said == ["tool 'bad' is left out: its schema cannot be written as JSON"]


def test_a_dialect_nobody_knows_is_not_looked_up():
    dialect = {"$schema": "https://example.com/mine", "properties": {}}
    assert catalog.schema_fault(dialect) is None
