"""SDKs of OpenAI and Anthropic, LangChain, Pydantic AI: the model receives what the
client sent."""

from tests.clients.conversations import BRIEF, NAMES, UMBRELLA, WHY, received
from tests.clients.programs import needs_node, needs_packages

pytestmark = needs_packages

# OpenAI.


def test_openai_python_sends_only_the_new_message(run, names):
    assert run("OpenAI for Python") == ["Hello Ada.", "Ada."]
    assert [received(body) for body in names.bodies] == [NAMES[:1], NAMES]


def test_openai_python_streams_and_keeps_the_conversation(run, names):
    assert run("OpenAI for Python", 2) == ["Hello Ada.", "Ada."]
    assert [received(body) for body in names.bodies] == [NAMES[:1], NAMES]


def test_openai_python_calls_tools(run, umbrella):
    assert run("OpenAI for Python", 3) == ["Yes."]
    assert [received(body) for body in umbrella.bodies] == [UMBRELLA[:1], UMBRELLA]


def test_openai_python_creates_responses(run, names):
    assert run("OpenAI for Python", 4) == ["Hello Ada.", "Ada."]
    assert [received(body) for body in names.bodies] == [NAMES[:1], NAMES]


@needs_node
def test_openai_javascript_chats_and_streams(run, names):
    names.reply("I do not know.")
    lines = run("OpenAI for JavaScript")
    assert lines == ["Hello Ada.", "Ada.", "I do not know."]
    age = [*NAMES, ("assistant", "Ada."), ("user", "And how old am I?")]
    assert [received(body) for body in names.bodies] == [NAMES[:1], NAMES, age]


# Anthropic.


def test_anthropic_python_keeps_the_conversation_and_calls_tools(run, umbrella):
    assert run("Anthropic for Python") == ["Yes.", "It rains."]
    assert [received(body) for body in umbrella.bodies] == [
        BRIEF + UMBRELLA[:1],
        BRIEF + UMBRELLA,
        BRIEF + WHY,
    ]


def test_anthropic_python_streams_counts_and_reads_errors(run, names):
    assert run("Anthropic for Python", 2) == [
        "True",
        "Hello Ada.",
        "assistant chat titles",
        "not_found_error",
    ]
    assert [received(body) for body in names.bodies] == [NAMES[:1]]


# Frameworks.


def test_langchain_keeps_the_conversation_and_calls_tools(run, umbrella):
    umbrella.reply("Good ", "night")
    assert run("LangChain") == ["Yes.", "It rains.", "Good night"]
    assert [received(body) for body in umbrella.bodies] == [
        BRIEF + UMBRELLA[:1],
        BRIEF + UMBRELLA,
        BRIEF + WHY,
        [("user", "Good night")],
    ]


def test_pydantic_ai_keeps_the_conversation_and_calls_tools(run, umbrella):
    assert run("Pydantic AI") == ["Yes.", "It rains."]
    assert [received(body) for body in umbrella.bodies] == [
        BRIEF + UMBRELLA[:1],
        BRIEF + UMBRELLA,
        BRIEF + WHY,
    ]


# Embeddings.


def test_openai_python_creates_embeddings(run, fake):
    assert run("OpenAI for Python", 5) == ["2 1536"]
    assert [request.body["input"] for request in fake.embeddings] == [["Tea", "Paris"]]


def test_llamaindex_creates_embeddings(run, fake):
    assert run("LlamaIndex", 2) == ["1536"]
    assert [request.body["input"] for request in fake.embeddings] == [["Tea"]]


def test_langchain_creates_embeddings(run, fake):
    assert run("LangChain", 2) == ["1536"]
    assert [request.body["input"] for request in fake.embeddings] == [["Tea"]]
