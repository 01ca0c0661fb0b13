"""Frameworks and applications: the model receives what the client has sent."""

from tests.clients.conversations import BRIEF, NAMES, UMBRELLA, WHY, received
from tests.clients.programs import needs_node, needs_packages

pytestmark = needs_packages

TURNS = [BRIEF + UMBRELLA[:1], BRIEF + UMBRELLA, BRIEF + WHY]
ANSWERS = ["Yes.", "It rains."]


def test_openai_agents_keeps_the_conversation_and_calls_tools(run, umbrella):
    assert run("OpenAI Agents SDK") == ANSWERS
    assert [received(body) for body in umbrella.bodies] == TURNS


def test_llamaindex_keeps_the_conversation_and_calls_tools(run, umbrella):
    assert run("LlamaIndex") == ANSWERS
    assert [received(body) for body in umbrella.bodies] == TURNS


def test_instructor_validates_the_reply(run, fake):
    fake.call_tool("Person", {"name": "Ada", "age": 36})
    assert run("Instructor") == ["name='Ada' age=36"]
    assert received(fake.bodies[0]) == [("user", "Ada is 36.")]


@needs_node
def test_vercel_keeps_the_conversation_and_calls_tools(run, umbrella):
    assert run("Vercel AI SDK") == ANSWERS
    assert [received(body) for body in umbrella.bodies] == TURNS


@needs_node
def test_vercel_uses_responses(run, umbrella):
    assert run("Vercel AI SDK", 2) == ANSWERS
    assert [received(body) for body in umbrella.bodies] == TURNS


def test_litellm_keeps_the_conversation(run, names):
    assert run("LiteLLM") == ["Hello Ada.", "Ada."]
    assert [received(body) for body in names.bodies] == [NAMES[:1], NAMES]


def test_llm_keeps_the_conversation(run, names):
    assert run("LLM") == ["Hello Ada.", "Ada."]
    assert [received(body) for body in names.bodies] == [NAMES[:1], NAMES]


def test_autogen_keeps_the_conversation_and_calls_tools(run, umbrella):
    assert run("AutoGen") == ANSWERS
    assert [received(body) for body in umbrella.bodies] == TURNS


def test_semantic_kernel_keeps_the_conversation_and_calls_tools(run, fake):
    fake.call_tool("Weather-get_weather", {"city": "Oslo"})
    fake.reply("Yes", ".")
    fake.reply("It ", "rains.")
    assert run("Semantic Kernel", packages="semantic-kernel") == ANSWERS
    calls = [("call", ("Weather-get_weather", {"city": "Oslo"}))]
    why = BRIEF + WHY[:1] + calls + WHY[2:]
    assert [received(body) for body in fake.bodies] == [why[:2], why[:4], why]


def test_mcp_sdk_calls_an_agent(run, names):
    assert run("MCP SDK") == ["Hello Ada."]
    assert [received(body) for body in names.bodies] == [NAMES[:1]]


def test_aider_edits_a_file(run, fake, tmp_path):
    edit = (
        "hello.py\n```python\n<<<<<<< SEARCH\n"
        'print("Hello")\n=======\nprint("Hello world")\n>>>>>>> REPLACE\n```\n'
    )
    file = tmp_path / "hello.py"
    for options in ({}, {"server": fake.root_url}):
        file.write_text('print("Hello")\n')
        fake.reply(edit)
        run("Aider", packages="aider", **options)
        assert file.read_text() == 'print("Hello world")\n'
    through, direct = map(received, fake.bodies)
    assert ("assistant", "Ok.") in direct
    assert through == direct
