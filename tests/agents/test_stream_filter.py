"""Filtering of an agent's stream, and images for models without vision."""

from agents import message_filters
from agents.stream_filter import StreamFilter, ToolCallFilter
from core.events import TextDelta, ToolCallDelta
from core.messages import Message


def test_text_after_a_silent_round_is_separated():
    stream_filter = StreamFilter((), final_text_only=False)
    events = [*stream_filter.filter(TextDelta("One."))]
    stream_filter.next_round()
    stream_filter.next_round()
    events += [
        *stream_filter.filter(TextDelta("Two")),
        *stream_filter.filter(TextDelta(".")),
    ]
    assert [event.text for event in events] == ["One.", "\n\n", "Two", "."]


def test_deltas_before_the_name_are_buffered():
    screen = ToolCallFilter({"look"})
    pieces = [
        ToolCallDelta(3, id="c"),
        ToolCallDelta(3, arguments='{"a"'),
        ToolCallDelta(3, name="look"),
        ToolCallDelta(3, arguments=": 1}"),
    ]
    passed = [list(screen.filter(piece)) for piece in pieces]
    assert list(map(len, passed)) == [0, 0, 3, 1]
    deltas = [piece for pieces in passed for piece in pieces]
    assert {piece.index for piece in deltas} == {0}
    assert deltas[0].id == "c"
    assert "".join(piece.arguments for piece in deltas) == '{"a": 1}'


def test_only_tool_images_are_left_out():
    image_part = {
        "type": "image_url",
        "image_url": {"url": "data:image/png;base64,AA=="},
    }
    user_message = Message("user", [image_part])
    assert message_filters.drop_images([user_message]) is None
    messages = message_filters.drop_images(
        [user_message, Message("tool", [image_part], tool_call_id="c")]
    )
    assert messages == [
        user_message,
        Message("tool", message_filters.IMAGE_PLACEHOLDER, tool_call_id="c"),
    ]


def test_oldest_messages_are_left_out():
    texts = ("user", "a"), ("assistant", "b"), ("system", "s"), ("user", "c")
    messages = [Message(role, text) for role, text in (*texts, ("user", "d"))]

    def kept(fits):
        first = message_filters.first_fitting(messages, fits)
        return [each.text for each in message_filters.since(messages, first)]

    assert kept(lambda each: len(each) <= 3) == ["s", "c", "d"]
    assert kept(lambda each: False) == ["s", "d"]
