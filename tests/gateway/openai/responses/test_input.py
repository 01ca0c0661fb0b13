"""The input of a request for a response: items, parts, tools, and refusals."""

import base64

import pytest

from tests.gateway.calls import error, prompt
from tests.gateway.openai.responses.shapes import ADD, body, post, respond

pytestmark = pytest.mark.database

CLIENT = {"metadata": {"history": "client"}}
CALL = {
    "type": "function_call",
    "call_id": "call_1",
    "name": "add",
    "arguments": "{}",
}
OUTPUT = {"type": "function_call_output", "call_id": "call_1", "output": "3"}
PIXEL = (
    "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk"
    "+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


def sent(server, fake, user, items, **more):
    """Return the messages that the model received, after the agent's preamble."""
    respond(server, body(user, items, **CLIENT, **more))
    return fake.requests[-1].body["messages"][1:]


def test_items_may_leave_out_type_id_and_status(server, fake, user):
    items = [
        {"role": "developer", "content": "Be kind"},
        {"role": "user", "content": "1 + 2?"},
        {"role": "assistant", "content": [{"type": "output_text", "text": "Wait"}]},
        CALL,
        OUTPUT,
        {"type": "message", "role": "user", "content": "And?"},
    ]
    assert sent(server, fake, user, items, tools=[ADD]) == [
        {"role": "system", "content": "Be kind"},
        {"role": "user", "content": "1 + 2?"},
        {
            "role": "assistant",
            "content": "Wait",
            "tool_calls": [
                {
                    "id": "call_1",
                    "type": "function",
                    "function": {"name": "add", "arguments": "{}"},
                }
            ],
        },
        {"role": "tool", "tool_call_id": "call_1", "content": "3"},
        {"role": "user", "content": "And?"},
    ]


def test_items_may_have_nulls_and_fields_of_their_own(server, fake, user):
    items = [
        {"role": "user", "content": [{"type": "input_text", "text": "hi"}]},
        {
            "type": "reasoning",
            "id": "rs_1",
            "summary": [],
            "encrypted_content": "other",
        },
        {**CALL, "id": None, "status": "completed", "namespace": None, "caller": None},
        {
            **OUTPUT,
            "id": None,
            "status": None,
            "output": [{"type": "input_text", "text": "3"}],
        },
        {
            "type": "message",
            "id": "msg_1",
            "status": "completed",
            "role": "assistant",
            "phase": None,
            "content": [
                {
                    "type": "output_text",
                    "text": "Three",
                    "annotations": [],
                    "logprobs": None,
                    "parsed": None,
                }
            ],
        },
        {"role": "user", "content": "Thanks"},
    ]
    messages = sent(server, fake, user, items, tools=[ADD])
    assert [m["role"] for m in messages] == [
        "user",
        "assistant",
        "tool",
        "assistant",
        "user",
    ]
    assert messages[2]["content"] == "3"
    assert messages[3]["content"] == "Three"


def test_images_and_files_reach_the_model(server, fake, user):
    note = f"data:text/plain;base64,{base64.b64encode(b'A note').decode()}"
    parts = [
        {"type": "input_text", "text": "Look"},
        {
            "type": "input_image",
            "image_url": PIXEL,
            "detail": "original",
            "file_id": None,
        },
        {"type": "input_file", "file_data": note, "filename": "a.txt"},
    ]
    (message,) = sent(server, fake, user, [{"role": "user", "content": parts}])
    assert message["content"] == [
        {"type": "text", "text": "Look"},
        {"type": "image_url", "image_url": {"url": PIXEL, "detail": "high"}},
        {"type": "text", "text": '<file name="a.txt">\nA note\n</file>'},
    ]


def test_instructions_apply_to_one_request(server, fake, user):
    respond(server, body(user, instructions="Be brief"))
    respond(server, body(user, "again"))
    assert "Be brief" not in str(prompt(fake.requests[-1]))
    assert ("user", "hi") in prompt(fake.requests[-1])


def test_allowed_tools_limit_the_tools(server, fake, user):
    other = {**ADD, "name": "other"}
    choice = {
        "type": "allowed_tools",
        "mode": "required",
        "tools": [{"type": "function", "name": "add"}],
    }
    respond(server, body(user, tools=[ADD, other], tool_choice=choice))
    request = fake.requests[-1].body
    assert [tool["function"]["name"] for tool in request["tools"]] == ["add"]
    assert request["tool_choice"] == "required"


def test_named_tool_is_required(server, fake, user):
    choice = {"type": "function", "name": "add"}
    respond(server, body(user, tools=[ADD], tool_choice=choice))
    assert fake.requests[-1].body["tool_choice"] == {
        "type": "function",
        "function": {"name": "add"},
    }


REFUSED = {
    "built-in tool": ({"tools": [{"type": "web_search"}]}, "tools[0].type"),
    "custom tool": ({"tools": [{"type": "custom", "name": "x"}]}, "tools[0].type"),
    "two tools": ({"tools": [ADD, ADD]}, "tools"),
    "choice": (
        {"tools": [ADD], "tool_choice": {"type": "function", "name": "b"}},
        "tool_choice",
    ),
    "hosted choice": (
        {"tools": [ADD], "tool_choice": {"type": "web_search"}},
        "tool_choice",
    ),
    "required": ({"tool_choice": "required"}, "tool_choice"),
    "prompt": ({"prompt": {"id": "pmpt_1"}}, "prompt"),
    "logprobs": ({"include": ["message.output_text.logprobs"]}, "include"),
    "top logprobs": ({"top_logprobs": 3}, "top_logprobs"),
    "unknown": ({"messages": []}, "messages"),
    "temperature": ({"temperature": 3}, "temperature"),
    "two conversations": (
        {"previous_response_id": "resp_1", "conversation": "conv_1"},
        "previous_response_id",
    ),
    "empty": ({"input": []}, "input"),
    "reasoning alone": ({"input": [{"type": "reasoning"}]}, "input"),
    "no items": ({"input": [1]}, "input[0].type"),
    "item": ({"input": [{"type": "computer_call"}]}, "input[0].type"),
    "no role": ({"input": [{"type": "message", "content": "x"}]}, "input[0].role"),
    "part": (
        {"input": [{"role": "user", "content": [{"type": "text", "text": "x"}]}]},
        "input[0].content[0].type",
    ),
    "image": (
        {"input": [{"role": "user", "content": [{"type": "input_image"}]}]},
        "input[0].content[0].image_url",
    ),
    "broken image": (
        {
            "input": [
                {
                    "role": "user",
                    "content": [
                        {
                            "type": "input_image",
                            "image_url": "data:image/png;base64,x",
                        }
                    ],
                }
            ]
        },
        "input[0].content[0].image_url",
    ),
    "result without call": ({"input": [OUTPUT]}, "input"),
    "format": ({"text": {"format": {"type": "xml"}}}, "text.format.type"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_a_turn_cannot_do_is_refused(server, user, case):
    more, param = REFUSED[case]
    assert error(post(server, {**body(user), **more}), 400)["param"] == param


def test_parameters_of_other_apis_are_treated_as_in_chat(server, fake, user):
    respond(server, body(user, top_k=5, min_p=0.1, prompt_cache_options={"ttl": "30m"}))
    sent = fake.bodies[-1]
    assert (sent["top_k"], sent["min_p"]) == (5, 0.1)
    answer = post(server, body(user, model="claude", min_p=0.1))
    assert answer.headers["X-Coulisse-Dropped-Parameters"] == "min_p"
    refusal = error(post(server, body(user, top_kk=5)), 400)
    assert (refusal["code"], refusal["param"]) == ("unknown_parameter", "top_kk")
