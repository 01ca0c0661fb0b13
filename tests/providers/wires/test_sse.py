import itertools
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from providers.transport import sse
from tests import growth

STREAM = (
    "\ufeff: a comment\r\n"
    'event: first\r\ndata: {"text": "naïve ☕ 🎉"}\r\n\r\n'
    "data: two\ndata: lines\n\n"
    "id: 7\nretry: 10\ndata:no space\r\r"
    "data\n\n"
    "event: named without data\n\n"
    "data: last\n\n"
).encode()
EVENTS = [
    ("first", '{"text": "naïve ☕ 🎉"}'.encode()),
    ("", b"two\nlines"),
    ("", b"no space"),
    ("", b""),
    ("", b"last"),
]


def parse(pieces: list[bytes]) -> list[sse.SseEvent]:
    parser = sse.SseParser()
    events = [event for piece in pieces for event in parser.feed(piece)]
    return events + parser.end()


def test_every_form_of_line_and_field_is_parsed():
    assert parse([STREAM]) == EVENTS


def test_bytes_can_arrive_one_at_a_time():
    assert parse([STREAM[i : i + 1] for i in range(len(STREAM))]) == EVENTS


@pytest.mark.parametrize("mark", ["\ufeff", ""])
def test_byte_order_mark_can_be_split_anywhere(mark: str):
    stream = f"{mark}data: x\n\n".encode()
    for cut in range(6):
        assert parse([stream[:cut], stream[cut:]]) == [("", b"x")]


@given(st.lists(st.integers(0, len(STREAM)), max_size=12))
def test_stream_can_be_split_anywhere(cuts: list[int]):
    ends = [0, *sorted(cuts), len(STREAM)]
    pieces = [STREAM[a:b] for a, b in itertools.pairwise(ends)]
    assert parse(pieces) == EVENTS


@given(
    st.lists(
        st.text(
            alphabet=st.characters(codec="utf-8", exclude_characters="\r\n"), min_size=1
        )
    ),
    st.sampled_from(["\n", "\r", "\r\n"]),
    st.integers(1, 5),
)
def test_sent_texts_round_trip(texts: list[str], end: str, size: int):
    stream = "".join(f"data: {text}{end}{end}" for text in texts).encode()
    pieces = [stream[i : i + size] for i in range(0, len(stream), size)]
    assert parse(pieces) == [("", text.encode()) for text in texts]


@pytest.mark.parametrize(
    "tail", [b"data: [DONE]", b"data: [DONE]\n", b"data: [DONE]\r"]
)
def test_last_event_without_blank_line_counts(tail: bytes):
    assert parse([tail]) == [("", b"[DONE]")]


def test_long_line_in_chunks_takes_linear_time():
    short, long = (
        partial(parse, [b"data: ", *[b"x" * 1024] * count, b"\n\n"])
        for count in (1024, 8192)
    )
    ((_, data),) = long()
    assert len(data) == 1024 * 8192
    assert growth.grows_slowly(short, long)
