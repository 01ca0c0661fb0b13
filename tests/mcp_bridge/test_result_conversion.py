import base64

import mcp_types as mcp
import pytest

from mcp_bridge.errors import ToolFailed
from mcp_bridge.tools import result_conversion

PNG = base64.b64encode(b"\x89PNG").decode()


def text(value):
    return mcp.TextContent(type="text", text=value)


def image(data=PNG, mime_type="image/png"):
    return mcp.ImageContent(type="image", data=data, mime_type=mime_type)


def read(*content, structured=None, is_error=False):
    answer = mcp.CallToolResult(
        content=list(content), structured_content=structured, is_error=is_error
    )
    return result_conversion.convert_result(answer, "it")


def blob(uri="file:///a.pdf", mime_type="application/pdf", data="AAAA"):
    resource = mcp.BlobResourceContents(uri=uri, mime_type=mime_type, blob=data)
    return mcp.EmbeddedResource(type="resource", resource=resource)


def test_texts_are_joined():
    assert read(text("one"), text("two")) == "one\ntwo"


def test_empty_result_is_empty_text():
    assert read() == ""


def test_structured_content_is_used_without_other_content():
    assert read(structured={"a": [1]}) == '{"a":[1]}'
    assert read(structured=0) == "0"
    assert read(text("a is 1"), structured={"a": 1}) == "a is 1"


def test_image_keeps_its_position_between_texts():
    parts = read(text("a"), text("b"), image(), text("c"))
    assert parts == [
        {"type": "text", "text": "a\nb"},
        {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG}"}},
        {"type": "text", "text": "c"},
    ]


@pytest.mark.parametrize(
    ("block", "message"),
    [
        (image(mime_type="image/tiff"), "[not shown: image, image/tiff, which models"),
        (image("A" * (5 * 1024 * 1024 + 4)), "3,840 kB, too large]"),
        (image("not base64!"), "image, image/png, damaged]"),
        (image("AA!AAA=="), "image, image/png, damaged]"),
        (image(mime_type="a/b\n]x"), "[not shown: image, a/bx, which models"),
        (
            mcp.AudioContent(type="audio", data="AAAA", mime_type="audio/wav"),
            "[not shown: audio, audio/wav, 0 kB]",
        ),
        (blob(), "[not shown: file:///a.pdf, application/pdf, 0 kB]"),
        (blob(mime_type=None), "unknown type"),
    ],
)
def test_unsupported_content_is_named(block, message):
    assert message in read(block)


def test_image_resource_is_an_image():
    (part,) = read(blob("file:///a.png", "image/png", PNG))
    assert part["image_url"]["url"].endswith(PNG)


def test_text_resource_includes_its_uri():
    resource = mcp.TextResourceContents(uri="file:///a.txt", text="hello")
    block = mcp.EmbeddedResource(type="resource", resource=resource)
    assert read(block) == "file:///a.txt:\nhello"


def test_resource_link_is_text():
    link = mcp.ResourceLink(
        type="resource_link", name="report", uri="file:///r", description="last week"
    )
    assert read(link) == "report: file:///r (last week)"


def test_resource_link_includes_its_title():
    link = mcp.ResourceLink(type="resource_link", name="r", uri="file:///r", title="R")
    assert read(link) == "r: file:///r (R)"


def test_text_limit_applies_to_all_parts():
    parts = read(text("x" * 99_999), image(), text("y" * 50), image(), text("z"))
    kinds = [part["type"] for part in parts]
    assert kinds == ["text", "image_url", "text", "image_url"]
    assert parts[2]["text"] == f"y{result_conversion.TRUNCATION_MARK}"


def test_error_result_raises_with_its_text():
    with pytest.raises(ToolFailed) as caught:
        read(text("no such file"), is_error=True)
    assert (caught.value.message, caught.value.server) == ("no such file", "it")


def test_error_result_without_text_says_so():
    with pytest.raises(ToolFailed, match="without a message"):
        read(is_error=True)
